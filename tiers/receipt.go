package tiers

import (
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
)

// Receipt records every decision taken for one request. It holds counts and
// names, never text.
type Receipt struct {
	Route   string
	Plan    Plan
	Tries   []Try
	Verdict accept.Verdict // of the draft; zero when none was judged

	Tier           Tier // that the answer came from, "" while there is none
	Finish         string
	PromptTokens   int
	AcceptedTokens int     // draft tokens in the answer
	TargetTokens   int     // target tokens in the answer
	WastedTokens   int     // draft tokens that were thrown away
	USD            float64 // its share of the price of the backends that worked for it

	Began  time.Time     // when the request was taken up
	Waited time.Duration // for room at the pools
	Draft  time.Duration // spent on the draft
	Target time.Duration // spent on the target until its first byte
	First  time.Duration // until the answer's first byte
}

// Try is one call to one backend.
type Try struct {
	Pool    string
	Backend string
	Failed  FailureKind // "" when it answered
}

// mostTries bounds a receipt.
const mostTries = 32

func (rc *Receipt) try(pool, backend string, f *Failure) {
	if len(rc.Tries) == mostTries {
		return
	}
	t := Try{Pool: pool, Backend: backend}
	if f != nil {
		t.Failed = f.Kind
	}
	rc.Tries = append(rc.Tries, t)
}

// Acceptance is the value of the X-Acceptance header: what is known when it is
// written.
func (rc *Receipt) Acceptance() string {
	word, reason := rc.verdict()
	if !rc.judged() {
		return word + ";reason=" + reason
	}
	return word + ";reason=" + reason + ";score=" + score(rc.Verdict)
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
