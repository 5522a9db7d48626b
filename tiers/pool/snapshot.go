package pool

import (
	"cmp"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pool/health"
	"github.com/foregate/foregate/tiers/pressure"
)

// BackendState is one backend as status, shedding and metrics see it.
type BackendState struct {
	ID          string
	URL         string
	Engine      dialect.Kind     // "" is not known
	Unasked     bool             // its engine was not asked yet what kind it is
	Reading     pressure.Reading // the last one, however old
	HasReading  bool             // Reading is younger than pressure.UnknownAfter
	KVUsage     float64          // aged and with our own tokens, 0..1; the pool's mean when HasReading is false
	InFlight    int              // this replica's requests there
	Tokens      int              // their prompt tokens and half of their expected output
	Down        bool
	Drained     bool    // it gets no new requests
	Suspect     bool    // it seems to hang and gets requests only if no other is left
	DrainReason string  // why it is down or drained, or what is wrong with it
	Open        bool    // its breaker is open
	Wait        float64 // expected wait of a prompt of mean length, seconds
	Score       float64 // 1/(1+Wait)
	Life        uint64  // changes with each restart

	PrefillRate float64 // learned, prompt tokens per second
	DecodeRate  float64 // learned, tokens per second of one request
}

// Snapshot returns the state of every backend in the order of the set.
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
		s.ID, s.URL, s.Engine, s.Life = b.id, b.url, b.identity.kind, b.life
		s.Unasked = b.identity.isUnasked()
		s.Reading = b.reading
		_, s.HasReading = b.weigh(r.now)
		s.KVUsage = c.KVUsage()
		s.InFlight, s.Tokens = all.Requests, all.Tokens
		s.Down, s.Drained, s.Suspect, s.Open = b.down != nil, b.drained.reason(r.now) != "", c.Suspect, r.views[i].broken
		s.DrainReason = b.why(r.now, cmp.Or(p.refusal(b), b.modelProblem(), p.engineProblem(b)))
		s.Wait = choose.Wait(*c, typical)
		s.Score = choose.Score(s.Wait)
		s.PrefillRate, s.DecodeRate = c.PrefillRate, c.DecodeRate
	}
	return out
}

// why returns why b gets no requests, or what is wrong with it; "" if neither. misfit is that of
// [Pool.refusal], backend.modelProblem or [Pool.engineProblem].
func (b *backend) why(now time.Time, misfit string) string {
	condition, drain := b.health.Condition(), b.drained.reason(now)
	switch {
	case drain != "" && b.down == nil:
		return drain
	case misfit != "":
		return misfit
	case b.down != nil:
		return b.down.Error()
	case condition != health.Well:
		return string(condition)
	case !b.reachability.IsReachable(now):
		return b.reachability.Problem()
	}
	return b.identity.hint()
}

// queueShare is the share of waiting to running requests that is normal when all seats are taken: with answers of some
// seconds the last of them gets a seat in about half a second.
const queueShare = 0.1

// Load returns the mean KV usage of the backends that are up, as far as known, or 1 if requests queue for seats (more
// than queueShare of the running ones). A new request would wait behind them.
func (p *Pool) Load() float64 {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meanNow(now)
	if m.waiting > 1+queueShare*m.running {
		return 1
	}
	return m.usage
}

// UnitCosts returns the learned cost in USD of a prompt token and of an answer token on a busy backend: its price
// divided by its throughput. ok is false if the pool has no price or too little was seen
// ([estimate.UnitCosts.PerToken]).
func (p *Pool) UnitCosts() (prefill, decode float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usdPerHour <= 0 {
		return 0, 0, false
	}
	return p.units.PerToken(p.usdPerHour / 3600)
}
