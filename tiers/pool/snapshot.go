package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pool/health"
	"github.com/foregate/foregate/tiers/pressure"
)

// BackendState is one backend as status, shedding and metrics see it.
type BackendState struct {
	ID          string
	URL         string
	Reading     pressure.Reading // the last one, however old
	HasReading  bool             // Reading is younger than pressure.Config.Absent
	KVUsage     float64          // aged and with our own tokens, 0..1; the pool's mean when HasReading is false
	InFlight    int              // this replica's requests there
	Tokens      int              // their prompt tokens and half of their expected output
	Down        bool
	Drained     bool    // it gets no new requests
	Suspect     bool    // it seems to hang, and gets requests only where no other is left
	DrainReason string  // why it is down or drained, or what is wrong with it
	Open        bool    // the breaker's view
	Wait        float64 // expected seconds that a prompt of the mean length loses there
	Score       float64 // 1/(1+Wait)
	Life        uint64  // another one than before: it was restarted meanwhile

	PrefillRate float64 // learned, prompt tokens per second
	DecodeRate  float64 // learned, tokens per second of one request
}

// Snapshot tells how every backend stands, in the order of the set.
func (p *Pool) Snapshot() []BackendState {
	var r round
	r.begin(p, &Demand{})
	r.all()
	r.ask(p, &Demand{})
	out := make([]BackendState, len(r.backends))

	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill(&r)
	typical := choose.Request{PromptTokens: int(p.meanPrompt)}
	for i, b := range r.backends {
		s, c, all := &out[i], &r.cands[i], b.account.All()
		s.ID, s.URL, s.Life = b.id, b.url, b.life
		s.Reading = b.reading
		_, s.HasReading = b.weigh(r.now, &r.age)
		s.KVUsage = c.KVUsage()
		s.InFlight, s.Tokens = all.Requests, all.Tokens
		s.Down, s.Drained, s.Suspect, s.Open = b.down != nil, b.drained.reason(r.now) != "", c.Suspect, r.views[i].broken
		s.DrainReason = b.why(r.now, r.age)
		s.Wait = choose.Wait(r.config, *c, typical)
		s.Score = choose.Score(s.Wait)
		s.PrefillRate, s.DecodeRate = c.PrefillRate, c.DecodeRate
	}
	return out
}

// why is why b gets no requests, or what is wrong with it; "" is nothing.
func (b *backend) why(now time.Time, age pressure.Config) string {
	condition, drain := b.health.Condition(), b.drained.reason(now)
	switch {
	case b.down != nil:
		return b.down.Error()
	case drain != "":
		return drain
	case condition != health.Well:
		return string(condition)
	case !b.reachability.IsReachable(now, age.UnknownAfter):
		return b.reachability.Problem()
	}
	return ""
}

// queueShare is how many requests may wait, of those that run, where there are seats: with answers
// of some seconds a seat comes free for the last of them in about half a second.
const queueShare = 0.1

// Load is how full the backends that are up are in the mean, as far as it is known: the share of
// their KV caches in use, or 1 where requests queue for seats: more than one and a tenth of those
// that run, which is more than come between two steps. What comes now would wait behind them.
func (p *Pool) Load() float64 {
	age, now := p.o.Pressure(), p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meanNow(now, age)
	if m.waiting > 1+queueShare*m.running {
		return 1
	}
	return m.usage
}

// UnitCosts are what a prompt token and a token of an answer cost on a busy backend of the
// pool, in USD, by what was learned: its price divided by what it makes. ok is false where
// the pool has no price, or too little was seen ([estimate.UnitCosts.PerToken]).
func (p *Pool) UnitCosts() (prefill, decode float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.USDPerHour <= 0 {
		return 0, 0, false
	}
	return p.units.PerToken(p.o.USDPerHour / 3600)
}
