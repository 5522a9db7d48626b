package tiers

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/plan"
)

// Receipt is the part of a request that is kept after its end: what was decided, tried and spent. It holds counts and
// names, never text.
type Receipt struct {
	Route       string        // the model that clients ask for
	Decision    plan.Decision // made once; what happens on the way does not change it
	Tries       []dispatch.Try
	Verdict     accept.Verdict      // of the draft; zero when none was judged
	Bypass      string              // why none was judged although one was planned, or why it does not count; "" is as decided
	ScoreSeries []accept.ScorePoint // its running minimum over tokens
	Checks      []Check             // the target's checks of it
	Failovers   []Failover          // where another backend continued the answer

	Stayed string // why no fallback of the route answered after its own pools failed; "" where that was no question

	Tier           plan.Tier // that the answer came from, "" while there is none
	Finish         string
	PromptTokens   int
	AcceptedTokens int     // draft tokens in the answer
	TargetTokens   int     // target tokens in the answer
	WastedTokens   int     // draft tokens that were thrown away
	DraftedTokens  int     // draft tokens that were made, as far as they came
	ScoredTokens   int     // tokens that the target computed for checks, prompts included
	Estimated      bool    // no engine told the tokens of the answer
	Committed      int     // draft tokens at which the draft was committed; 0 never
	CachedTokens   int     // of its prompt, found in a backend's prefix cache
	USD            float64 // cost of its work, without audits ([economy.CostOfWork])
	DraftUSD       float64 // of that, of the draft's backends
	SavedUSD       float64 // what the target alone would have cost more; negative if less, 0 where no draft was made or no answer
	Unpriced       bool    // some of these prices were unknown

	Audits *atomic.Int64 // 1e-9 USD of work for its audits so far, which may go on after its end; nil: it has none

	Began  time.Time     // when the request was taken up
	Waited time.Duration // for capacity at the pools
	Judged time.Duration // until the verdict, from when it began; 0 while there is none
	Draft  time.Duration // spent on the draft
	Verify time.Duration // spent on asking the target about the draft
	Target time.Duration // spent on the target's answer, or its part of one; at the answer's first byte, until then
	First  time.Duration // until the answer's first byte
}

// NewReceipt returns the receipt of a request that begins now. It has room for one call: most requests make no other.
func NewReceipt(route string, now time.Time) *Receipt {
	one := &struct {
		Receipt
		try [1]dispatch.Try
	}{Receipt: Receipt{Route: route, Began: now}}
	one.Tries = one.try[:0]
	return &one.Receipt
}

// StartOver records that the request is answered by another decision: no draft is part of the answer. The calls so far stay.
func (rc *Receipt) StartOver(d plan.Decision) {
	rc.Decision, rc.Bypass, rc.Verdict, rc.Judged, rc.Estimated = d, "", accept.Verdict{}, 0, false
	rc.PromptTokens, rc.AcceptedTokens, rc.TargetTokens = 0, 0, 0
	rc.WastedTokens, rc.DraftedTokens, rc.ScoredTokens = 0, 0, 0
}

// Check is one check of a part of the draft by the target.
type Check struct {
	Scorer  plan.Scorer   `json:"scorer"`
	Backend string        `json:"backend,omitzero"`
	Tokens  int           `json:"tokens"` // that it was asked about
	Kept    int           `json:"kept"`   // that it stood by, where it did not stand by all
	Pass    bool          `json:"pass"`
	Score   accept.Nats   `json:"score"`
	Reason  string        `json:"reason"` // of accept's, or why it could not say
	Took    time.Duration `json:"ms"`
	At      time.Duration `json:"at_ms"` // when it was asked, after Receipt.Began
}

// Failover is a position from which another backend continued the answer.
type Failover struct {
	Why    string        `json:"reason"` // a reason of accept's, draft_lost or target_lost
	Tokens int           `json:"tokens"` // of the answer before it, as far as they are known
	Bytes  int           `json:"bytes"`
	At     time.Duration `json:"at_ms"` // after Receipt.Began
}

// maxChecks bounds the checks and takeovers in a receipt; blocks make many.
const maxChecks = 16

// maxTries bounds the calls in a receipt.
const maxTries = 32

// Acceptance is the value of the X-Acceptance header: what is known when it is
// written.
func (rc *Receipt) Acceptance() string {
	word, reason := rc.Outcome()
	if !rc.WasJudged() {
		word += ";reason=" + reason
		if rc.Decision.Audit != nil {
			word += ";policy=" + rc.Decision.Audit.Own.Policy()
		}
		return word
	}
	if rc.warmup() {
		word += phaseWarmup
	}
	word += ";reason=" + reason + ";score=" + score(rc.Verdict)
	if m := rc.Decision.Mode; m != "" && m != plan.ModeConfidence {
		word += ";mode=" + string(m)
	}
	if rc.Decision.Audit != nil {
		word += ";policy=" + rc.Decision.Audit.Own.Policy()
	}
	if rc.Decision.Rule != "" {
		word += ";rule=" + string(rc.Decision.Rule)
	}
	return word
}

// phaseWarmup marks answers that were judged by the threshold of a warm-up.
const phaseWarmup = ";phase=warmup"

// warmup reports whether the draft was judged by the threshold of a warm-up, without a check by the target.
func (rc *Receipt) warmup() bool {
	return rc.WasJudged() && rc.Decision.IsWarmup() && !rc.Verdict.IsChecked()
}

// ServedByWarmup reports whether the answer is a draft that was accepted by the threshold of a warm-up, which no audit
// has certified yet.
func (rc *Receipt) ServedByWarmup() bool {
	return rc.warmup() && rc.Tier == plan.Draft && rc.Finish != ""
}

// Outcome returns what happened to the draft, in one word, and why.
func (rc *Receipt) Outcome() (word, reason string) {
	switch {
	case !rc.WasJudged():
		return "bypassed", rc.Reason()
	case rc.Verdict.Accept:
		return "accepted", rc.Verdict.Reason
	case rc.Tier == plan.Draft && rc.Finish != "": // it is the whole answer all the same
		return "accepted", rc.Verdict.LateReason()
	}
	return "rejected", rc.Verdict.Reason
}

// Reason says why no draft was judged; "" where one was.
func (rc *Receipt) Reason() string { return cmp.Or(rc.Bypass, rc.Decision.Reason) }

// WasJudged reports whether a draft was judged.
func (rc *Receipt) WasJudged() bool { return rc.Verdict.Reason != "" }

// score formats a score in nats with three decimals.
func score(v accept.Verdict) string {
	if v.Tokens == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(v.Score), 'f', 3, 64)
}

// AppendExtra appends the object "foregate" of the answer as raw JSON.
func (rc *Receipt) AppendExtra(b []byte) []byte {
	b = append(b, `{"tier":"`...)
	b = append(b, rc.Tier...)
	b = append(b, `","accepted_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.AcceptedTokens), 10)
	b = append(b, `,"target_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.TargetTokens), 10)
	verdict, reason := rc.Outcome()
	b = append(b, `,"acceptance":"`...)
	b = append(b, verdict...)
	b = append(b, `","reason":"`...)
	b = append(b, reason...)
	b = append(b, '"')
	if rc.warmup() {
		b = append(b, `,"phase":"warmup"`...)
	}
	if rc.WasJudged() {
		b = append(b, `,"score":`...)
		b = append(b, score(rc.Verdict)...)
	}
	return append(b, '}')
}
