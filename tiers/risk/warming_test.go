package risk

import "time"

// warming is how a replay's warm-up goes.
type warming struct {
	audited float64       // share of the drafts that are audited while it runs, decided before they are made
	prior   float64       // share of the drafts that the shipped prior accepts
	lasts   time.Duration // at most
}

// warmed is what a replay's warm-up served.
type warmed struct {
	served, wrong int // drafts, and bad ones among them
	ended         WarmupEnd
	endedAt       int // request after which nothing was served by it any more
}

// perSecond is how many requests come in a second.
func (r *run) perSecond() int {
	if r.pace > 0 {
		return r.pace
	}
	return perSecond
}

// clock is the time of a request.
func (r *run) clock(at int) time.Time {
	return time.Unix(1_000_000, int64(at)*int64(time.Second)/int64(r.perSecond()))
}

// warms reports whether a replica serves by the warm-up now: as tiers.Views has it.
func (r *run) warms(e *eye, at int) bool {
	if r.warm == nil || e.view.Serves() || e.view.Infeasible || !e.view.Warmup.IsRunning(r.clock(at), r.warm.lasts) {
		return false
	}
	if e.view.Warmup.Began == 0 {
		r.state.Drafted(r.rule, 0, 0, r.clock(at)) // the first request begins it
		if r.fault.replicas == 0 {
			r.look(e)
		}
		return false
	}
	return true
}

// warmUp is one request in the warm-up: a real draft, which is served if it reaches the cautious threshold.
func (r *run) warmUp(a due) {
	e := &r.eyes[a.replica]
	a.score, a.bad = r.now.draw(r.rng)
	cautious := e.view.Cautious
	if !IsKnown(cautious) {
		cautious = quantile(r.now, r.warm.prior)
	}
	served := 0
	if a.warm = a.score >= cautious; a.warm {
		served = 1
		r.served++
		r.endedAt = a.at
		if a.bad {
			r.wrong++
		}
	}
	r.state.Drafted(r.rule, 1, served, r.clock(a.at))
	random := r.rng.Float64()
	if random >= r.warm.audited {
		return
	}
	if a.decision = e.view.Decide(Key{}, Sampling{Rate: r.warm.audited}, random); a.score < a.decision.Floor && !a.warm {
		return
	}
	if a.warm {
		r.state.OpenWarmup(r.rule, a.ticket+"w", r.clock(a.at))
	}
	r.audit(a)
}

// quantile is the score that a share of a population's drafts reach.
func quantile(p population, share float64) float64 {
	low, high := -20.0, 20.0
	for range 40 {
		mid := (low + high) / 2
		if a, _ := p.tail(mid); a > share {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
