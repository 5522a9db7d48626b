package receipt

import (
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/plan"
)

// Recorder writes a receipt. It is for one goroutine.
type Recorder struct {
	rc    *Receipt
	now   func() time.Time
	phase phase
}

var _ dispatch.Events = (*Recorder)(nil)

// NewRecorder returns a recorder that writes rc; now tells the time.
func NewRecorder(rc *Receipt, now func() time.Time) *Recorder { return &Recorder{rc: rc, now: now} }

// Tally counts the tokens of a request so far.
type Tally struct {
	Prompt   int // as engines count it
	Accepted int // draft tokens in the answer
	Target   int // target tokens in the answer
	Wasted   int // draft tokens that were thrown away
	Drafted  int // draft tokens that were made, as far as they came
	Scored   int // tokens that the target computed to say what it thinks of the draft, prompts included

	Estimated bool // no engine told the tokens of the answer
}

// phase is the running part of an answer's time; the zero value is none.
type phase struct {
	into  *time.Duration
	since time.Time
}

// RecordPlan sets how the request is answered.
func (r *Recorder) RecordPlan(p plan.Plan, t *plan.AuditDecision) { r.rc.Plan, r.rc.Audit = p, t }

// RecordBypass sets why the request has no draft although one was planned, or why its draft does not count.
func (r *Recorder) RecordBypass(reason string) { r.rc.Plan.Reason = reason }

// RecordThreshold sets the threshold by which the draft is judged.
func (r *Recorder) RecordThreshold(needed accept.Nats) { r.rc.Needed = needed }

// RecordScores sets the draft's score series.
func (r *Recorder) RecordScores(track []accept.ScorePoint) { r.rc.ScoreSeries = track }

// RecordVerdict sets the verdict on the draft.
func (r *Recorder) RecordVerdict(v accept.Verdict) {
	r.rc.Verdict, r.rc.Judged = v, r.now().Sub(r.rc.Began)
}

// ClearVerdict removes the verdict: nothing was drafted.
func (r *Recorder) ClearVerdict() { r.rc.Verdict, r.rc.Judged = accept.Verdict{}, 0 }

// RecordCommit sets the number of tokens at which the draft was committed.
func (r *Recorder) RecordCommit(tokens int) { r.rc.Committed = tokens }

// RecordCheck adds a check by the target.
func (r *Recorder) RecordCheck(c Check) {
	c.At = r.now().Sub(r.rc.Began) - c.Took
	r.rc.Verify += c.Took
	if len(r.rc.Checks) < maxChecks {
		r.rc.Checks = append(r.rc.Checks, c)
	}
}

// RecordDraft adds the time spent on the draft since it began, without checks by the target.
func (r *Recorder) RecordDraft(began time.Time) { r.rc.Draft = r.now().Sub(began) - r.rc.Verify }

// RecordFailover adds a position from which another backend continues the answer.
func (r *Recorder) RecordFailover(t Failover) {
	if len(r.rc.Failovers) < maxChecks {
		t.At = r.now().Sub(r.rc.Began)
		r.rc.Failovers = append(r.rc.Failovers, t)
	}
}

// SetTier sets the tier that the answer comes from so far.
func (r *Recorder) SetTier(t plan.Tier) { r.rc.Tier = t }

// RecordTally sets the token counts.
func (r *Recorder) RecordTally(t Tally) {
	rc := r.rc
	rc.PromptTokens, rc.AcceptedTokens, rc.TargetTokens = t.Prompt, t.Accepted, t.Target
	rc.WastedTokens, rc.DraftedTokens, rc.ScoredTokens = t.Wasted, t.Drafted, t.Scored
	rc.Estimated = t.Estimated
}

// RecordFinish sets how the answer ended.
func (r *Recorder) RecordFinish(finish string) { r.rc.Finish = finish }

// Enter starts to count time for the target or the draft, and stops the running count.
func (r *Recorder) Enter(t plan.Tier) {
	r.lap()
	r.phase = phase{&r.rc.Target, r.now()}
	if t == plan.Draft {
		r.phase.into = &r.rc.Draft
	}
}

// Leave stops the running count.
func (r *Recorder) Leave() {
	r.lap()
	r.phase = phase{}
}

// lap adds the time since the last lap to the running phase.
func (r *Recorder) lap() {
	if p := &r.phase; p.into != nil {
		now := r.now()
		*p.into += now.Sub(p.since)
		p.since = now
	}
}

// RecordFirstByte tells that the answer's first byte goes out, and how far the running phase is: the headers tell
// both.
func (r *Recorder) RecordFirstByte() {
	r.lap()
	r.rc.First = r.now().Sub(r.rc.Began)
}

// Waited implements [dispatch.Events].
func (r *Recorder) Waited(d time.Duration) { r.rc.Waited += d }

// Tried implements [dispatch.Events].
func (r *Recorder) Tried(t dispatch.Try, at time.Time) (entry int) {
	if len(r.rc.Tries) == maxTries {
		return 0
	}
	t.At = at.Sub(r.rc.Began)
	r.rc.Tries = append(r.rc.Tries, t)
	return len(r.rc.Tries)
}

// Settled implements [dispatch.Events].
func (r *Recorder) Settled(entry int, t dispatch.Try) {
	t.At = r.rc.Tries[entry-1].At
	r.rc.Tries[entry-1] = t
}

// Cost implements [dispatch.Events].
func (r *Recorder) Cost(tier plan.Tier, usd float64) {
	r.rc.USD += usd
	if tier == plan.Draft {
		r.rc.DraftUSD += usd
	}
}

// RecordComparison tells what the request would have cost the target alone, and what it cost, in USD by the prices of tokens.
func (r *Recorder) RecordComparison(alone, spent float64) {
	r.rc.TargetAloneUSD, r.rc.SpentUSD = alone, spent
}

// AppendExtra appends the object "foregate" of the answer as raw JSON.
func (r *Recorder) AppendExtra(b []byte) []byte { return r.rc.AppendExtra(b) }
