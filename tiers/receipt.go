package tiers

import (
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/engine"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// Receipt records every decision taken for one request. It holds counts and
// names, never text.
type Receipt struct {
	Route   string
	Plan    plan.Plan
	Trial   *plan.Trial // how it was judged in the modes risk and shadow; nil in others
	Tries   []Try
	Verdict accept.Verdict // of the draft; zero when none was judged
	Needed  accept.Nats    // the threshold that its score was held against
	Band    accept.Nats    // how far below it the target was asked
	Tie     accept.Nats    // mode verify: by how much a token might miss the target's first choice
	Track   []Mark         // how its score fell
	Checks  []Checked      // what the target said of it, when it was asked
	Over    []Takeover     // where the target carried on in mid-answer

	Approximate bool // mode verify above temperature 0: the answer is not of the target's exact law

	Tier           plan.Tier // that the answer came from, "" while there is none
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
	Judged time.Duration // until the verdict, from when it began; 0 while there is none
	Draft  time.Duration // spent on the draft
	Verify time.Duration // spent on asking the target about the draft
	Target time.Duration // spent on the target's answer, or its part of one; at the answer's first byte, until then
	First  time.Duration // until the answer's first byte

	TargetFirst time.Duration // spent until the target's first byte
}

// Try is one call to one backend. Its times are on the gateway's clock.
type Try struct {
	Pool    string
	Backend string
	URL     string             // of the backend, as it is configured or found
	Role    Role               // what it was asked for
	Failed  engine.FailureKind // "" when it answered
	Broke   engine.FailureKind // why it broke off after its first byte; "" when it did not
	Score   bool               // it was asked what it thinks of a draft

	Status int // of its response; 0 is none
	Tokens int // that it made for the answer, as far as they came

	Waited time.Duration // for room, before it
	At     time.Duration // when it was begun, after Receipt.Began
	First  time.Duration // from then until its first event, or the whole of what is not streamed; 0 is none
	Took   time.Duration // from then until it was over; 0 while it is not

	Call uint64  // its number, see [CallName]; 0 where it had none
	Span [8]byte // the id that its backend was told as its parent; zero where requests are not traced
}

// Role is what a backend was asked for.
type Role string

// The roles.
const (
	RoleDraft    Role = "draft"    // a draft, or an answer of the draft tier
	RoleTarget   Role = "target"   // an answer of the target, or the rest of one
	RoleScore    Role = "score"    // what it thinks of a draft
	RoleTokenize Role = "tokenize" // text into ids, or back
)

// role is what a call asks for.
func (k *call) role() Role {
	switch {
	case k.scoring != nil:
		return RoleScore
	case k.path == openai.TokenizePath, k.path == openai.DetokenizePath:
		return RoleTokenize
	case k.tier == plan.Draft:
		return RoleDraft
	}
	return RoleTarget
}

// Mark is what the running minimum of a draft's score was when so many tokens had come.
type Mark struct {
	Tokens int
	Score  accept.Nats
}

// Checked is the target's word on a part of the draft.
type Checked struct {
	Scorer  plan.Scorer
	Backend string
	Tokens  int // that it was asked about
	Kept    int // that it stood by, where it did not stand by all
	Pass    bool
	Score   accept.Nats
	Reason  string        // of accept's, or why it could not say
	At      time.Duration // when it was asked, after Receipt.Began
	Took    time.Duration
}

// Takeover is a place in mid-answer from which the target carried on.
type Takeover struct {
	Why    string // a reason of accept's, draft_lost or target_lost
	Tokens int    // of the answer before it, as far as they are known
	Bytes  int
	At     time.Duration // after Receipt.Began
}

// mostChecks bounds the checks and takeovers in a receipt; blocks make many.
const mostChecks = 16

// mostTries bounds a receipt.
const mostTries = 32

// try enters a call that is begun now into the receipt.
func (x *exchange) try(waited time.Duration) {
	rc := x.receipt
	x.begun = x.cascade.now()
	if len(rc.Tries) == mostTries {
		return
	}
	rc.Tries = append(rc.Tries, Try{
		Pool: x.pool.Name(), Backend: x.lease.Backend(), URL: x.lease.URL(), Role: x.role(), Score: x.scoring != nil,
		Waited: waited, At: x.begun.Sub(rc.Began),
	})
	x.entry = len(rc.Tries)
}

// tried is the call's entry; nil where the receipt was full, or belongs to a request that has
// done with it.
func (x *exchange) tried() *Try {
	if x.entry == 0 {
		return nil
	}
	return &x.receipt.Tries[x.entry-1]
}

// settleTry completes the entry of a call that is over for the request: f is why it failed, nil
// when it did not, and tokens have come.
func (x *exchange) settleTry(f *engine.Failure, tokens int) {
	t := x.tried()
	if t == nil {
		return
	}
	x.entry = 0
	if x.resp != nil {
		t.Status = x.resp.StatusCode
	}
	if !x.first.IsZero() {
		t.First = max(x.first.Sub(x.begun), 1)
	}
	t.Took, t.Tokens = max(x.cascade.now().Sub(x.begun), 1), tokens
	switch {
	case f == nil:
	case x.first.IsZero():
		t.Failed = f.Kind
	default:
		t.Broke = f.Kind
	}
}

// ruled enters the verdict on the draft.
func (j *job) ruled(v accept.Verdict) {
	j.receipt.Verdict, j.receipt.Judged = v, j.cascade.now().Sub(j.receipt.Began)
}

func (rc *Receipt) checked(c Checked) {
	if len(rc.Checks) < mostChecks {
		rc.Checks = append(rc.Checks, c)
	}
}

// over enters a takeover.
func (j *job) over(t Takeover) {
	rc := j.receipt
	if len(rc.Over) < mostChecks {
		t.At = j.cascade.now().Sub(rc.Began)
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
	if rc.warmup() {
		word += phaseWarmup
	}
	word += ";reason=" + reason + ";score=" + score(rc.Verdict)
	if m := rc.Plan.Mode; m != "" && m != plan.ModeConfidence {
		word += ";mode=" + string(m)
	}
	if rc.Trial != nil {
		word += ";policy=" + rc.Trial.Policy()
	}
	if rc.Approximate {
		return word + ";exactness=approximate"
	}
	if rc.Plan.Mode == plan.ModeVerify && !rc.Plan.Thin {
		word += ";tie=" + strconv.FormatFloat(float64(rc.Tie), 'g', -1, 64)
	}
	return word
}

// phaseWarmup marks what was judged by a warm-up's threshold.
const phaseWarmup = ";phase=warmup"

// warmup reports whether the draft was judged by a warm-up's threshold, and not by the target's word.
func (rc *Receipt) warmup() bool {
	return rc.judged() && rc.Trial != nil && rc.Trial.Warmup && (rc.Verdict.Lot == "" || rc.Verdict.Lot == accept.LotWarmup)
}

// ofWarmup reports whether a draft that only a warm-up's threshold stands by is the answer.
func (rc *Receipt) ofWarmup() bool {
	word, _ := rc.verdict()
	return rc.warmup() && word == "accepted" && rc.Tier == plan.Draft && rc.Finish != ""
}

// OfWarmup reports whether an answer was judged by a warm-up's threshold, by what [Receipt.Acceptance] said of it.
func OfWarmup(acceptance string) bool { return strings.Contains(acceptance, phaseWarmup) }

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
	case rc.Tier == plan.Draft && rc.Finish != "": // it is the whole answer all the same
		return "accepted", rc.Verdict.Late()
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
	if rc.warmup() {
		b = append(b, `,"phase":"warmup"`...)
	}
	if rc.judged() {
		b = append(b, `,"score":`...)
		b = append(b, score(rc.Verdict)...)
	}
	return append(b, '}')
}
