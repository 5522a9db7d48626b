package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// phase is the running part of an answer's time; the zero value is none.
type phase struct {
	into  *time.Duration
	since time.Time
}

// age returns the time since the receipt began.
func (r *Request) age() time.Duration { return r.World.Now().Sub(r.Began) }

// recordCheck adds a check of the draft by the target, and counts it.
func (r *Request) recordCheck(c Check) {
	c.At = r.age() - c.Took
	r.Verify += c.Took
	if len(r.Checks) < maxChecks {
		r.Checks = append(r.Checks, c)
	}
	r.metrics.countCheck(r.Body.Model, c)
}

// recordVerdict sets the verdict on the draft.
func (r *Request) recordVerdict(v accept.Verdict) { r.Verdict, r.Judged = v, r.age() }

// recordDraft records a draft that has ended: its scores, and the time since it was requested without checks by the target.
func (r *Request) recordDraft(d *draft.Draft, requested time.Time) {
	r.ScoreSeries = d.ScoreSeries()
	r.Receipt.Draft = r.World.Now().Sub(requested) - r.Verify
}

// recordFailover adds a position from which another backend continues the answer.
func (r *Request) recordFailover(f Failover) {
	if len(r.Failovers) < maxChecks {
		f.At = r.age()
		r.Failovers = append(r.Failovers, f)
	}
}

// Enter starts to count time for the target or the draft, and stops the running count.
func (r *Request) Enter(t plan.Tier) {
	r.lap()
	r.phase = phase{&r.Receipt.Target, r.World.Now()}
	if t == plan.Draft {
		r.phase.into = &r.Receipt.Draft
	}
}

// Leave stops the running count.
func (r *Request) Leave() {
	r.lap()
	r.phase = phase{}
}

// lap adds the time since the last lap to the running phase.
func (r *Request) lap() {
	if p := &r.phase; p.into != nil {
		now := r.World.Now()
		*p.into += now.Sub(p.since)
		p.since = now
	}
}

// RecordFirstByte tells that the answer's first byte goes out, and how far the running phase is: the headers tell both.
func (r *Request) RecordFirstByte() {
	r.lap()
	r.First = r.age()
}

// count sets the number of answer tokens of the current tier.
func (r *Request) count(tokens int) {
	if r.Tier == plan.Draft {
		r.AcceptedTokens = tokens
	} else {
		r.TargetTokens = tokens
	}
}

// wasted records that no token of a draft became part of the answer.
func (r *Request) wasted(tokens int) {
	r.AcceptedTokens, r.TargetTokens, r.WastedTokens = 0, 0, tokens
}

// usage returns the tokens so far.
func (r *Request) usage() openai.Usage {
	return openai.Usage{Prompt: r.PromptTokens, Completion: r.AcceptedTokens + r.TargetTokens}
}

// events is a request as the dispatcher tells it what becomes of its calls.
type events Request

var _ dispatch.Events = (*events)(nil)

// Waited implements [dispatch.Events].
func (e *events) Waited(d time.Duration) { e.Receipt.Waited += d }

// Tried implements [dispatch.Events].
func (e *events) Tried(t dispatch.Try, at time.Time) (entry int) {
	if len(e.Tries) == maxTries {
		return 0
	}
	t.At = at.Sub(e.Began)
	e.Tries = append(e.Tries, t)
	return len(e.Tries)
}

// Settled implements [dispatch.Events].
func (e *events) Settled(entry int, t dispatch.Try) {
	t.At = e.Tries[entry-1].At
	e.Tries[entry-1] = t
}

// Cost implements [dispatch.Events].
func (e *events) Cost(c dispatch.Cost) {
	e.USD += c.USD
	if c.Tier == plan.Draft {
		e.DraftUSD += c.USD
	}
	e.Unpriced = e.Unpriced || c.Unknown
	e.CachedTokens = max(e.CachedTokens, c.Cached)
}
