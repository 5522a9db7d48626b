package tiers

import (
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/accept"
)

// Receipt records every decision taken for one request. It holds counts and
// names, never text.
type Receipt struct {
	Route   string
	Plan    Plan
	Trial   *Trial // how it was judged in the modes risk and shadow; nil in others
	Tries   []Try
	Verdict accept.Verdict // of the draft; zero when none was judged
	Needed  accept.Nats    // the threshold that its score was held against
	Band    accept.Nats    // how far below it the target was asked
	Tie     accept.Nats    // mode verify: by how much a token might miss the target's first choice
	Track   []Mark         // how its score fell
	Checks  []Checked      // what the target said of it, when it was asked
	Over    []Takeover     // where the target carried on in mid-answer

	Approximate bool // mode verify above temperature 0: the answer is not of the target's exact law

	Tier           Tier // that the answer came from, "" while there is none
	Finish         string
	PromptTokens   int
	AcceptedTokens int     // draft tokens in the answer
	TargetTokens   int     // target tokens in the answer
	WastedTokens   int     // draft tokens that were thrown away
	DraftedTokens  int     // draft tokens that were made, as far as they came
	ScoredTokens   int     // tokens that the target computed to say what it thinks of the draft, prompts included
	Committed      int     // draft tokens at which the draft was committed; 0 never
	USD            float64 // its share of the price of the backends that worked for it

	Began  time.Time     // when the request was taken up
	Waited time.Duration // for room at the pools
	Draft  time.Duration // spent on the draft
	Verify time.Duration // spent on asking the target about the draft
	Target time.Duration // spent on the target until its first byte
	First  time.Duration // until the answer's first byte
}

// Try is one call to one backend.
type Try struct {
	Pool    string
	Backend string
	Failed  FailureKind // "" when it answered
	Score   bool        // it was asked what it thinks of a draft
}

// Mark is what the running minimum of a draft's score was when so many tokens had come.
type Mark struct {
	Tokens int
	Score  accept.Nats
}

// Checked is the target's word on a part of the draft.
type Checked struct {
	Scorer  Scorer
	Backend string
	Tokens  int // that it was asked about
	Kept    int // that it stood by, where it did not stand by all
	Pass    bool
	Score   accept.Nats
	Reason  string // of accept's, or why it could not say
	Took    time.Duration
}

// Takeover is a place in mid-answer from which the target carried on.
type Takeover struct {
	Why    string // a reason of accept's, draft_lost or target_lost
	Tokens int    // of the answer before it, as far as they are known
	Bytes  int
}

// mostChecks bounds the checks and takeovers in a receipt; blocks make many.
const mostChecks = 16

// mostTries bounds a receipt.
const mostTries = 32

func (rc *Receipt) tried(t Try, f *Failure) {
	if len(rc.Tries) == mostTries {
		return
	}
	if f != nil {
		t.Failed = f.Kind
	}
	rc.Tries = append(rc.Tries, t)
}

func (rc *Receipt) checked(c Checked) {
	if len(rc.Checks) < mostChecks {
		rc.Checks = append(rc.Checks, c)
	}
}

func (rc *Receipt) over(t Takeover) {
	if len(rc.Over) < mostChecks {
		rc.Over = append(rc.Over, t)
	}
}

// Acceptance is the value of the X-Acceptance header: what is known when it is
// written.
func (rc *Receipt) Acceptance() string {
	word, reason := rc.verdict()
	if !rc.judged() {
		word += ";reason=" + reason
		if rc.Trial != nil {
			word += ";policy=" + rc.Trial.Policy()
		}
		return word
	}
	word += ";reason=" + reason + ";score=" + score(rc.Verdict)
	if m := rc.Plan.Mode; m != "" && m != ModeConfidence {
		word += ";mode=" + string(m)
	}
	if rc.Trial != nil {
		word += ";policy=" + rc.Trial.Policy()
	}
	if rc.Approximate {
		return word + ";exactness=approximate"
	}
	if rc.Plan.Mode == ModeVerify && !rc.Plan.Thin {
		word += ";tie=" + strconv.FormatFloat(float64(rc.Tie), 'g', -1, 64)
	}
	return word
}

// Pressed reports whether an answer is a draft that was kept only because the target was short of
// memory, by what [Receipt.Acceptance] said of it.
func Pressed(acceptance string) bool {
	return strings.Contains(acceptance, ";reason="+accept.ReasonPressed)
}

// verdict is what became of the draft, in one word, and why.
func (rc *Receipt) verdict() (word, reason string) {
	switch {
	case !rc.judged():
		return "bypassed", rc.Plan.Reason
	case rc.Verdict.Accept:
		return "accepted", rc.Verdict.Reason
	}
	return "rejected", rc.Verdict.Reason
}

func (rc *Receipt) judged() bool { return rc.Verdict.Reason != "" }

// score prints a score in nats with three decimals.
func score(v accept.Verdict) string {
	if v.Tokens == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(v.Score), 'f', 3, 64)
}

// extra is the object "foregate" of the answer, as raw JSON.
func (rc *Receipt) extra() []byte {
	b := append(make([]byte, 0, 160), `{"tier":"`...)
	b = append(b, rc.Tier...)
	b = append(b, `","accepted_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.AcceptedTokens), 10)
	b = append(b, `,"target_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.TargetTokens), 10)
	verdict, reason := rc.verdict()
	b = append(b, `,"acceptance":"`...)
	b = append(b, verdict...)
	b = append(b, `","reason":"`...)
	b = append(b, reason...)
	b = append(b, '"')
	if rc.judged() {
		b = append(b, `,"score":`...)
		b = append(b, score(rc.Verdict)...)
	}
	return append(b, '}')
}
