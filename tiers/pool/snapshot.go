package pool

import (
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pressure"
)

// BackendState is one backend as status, shedding and metrics see it.
type BackendState struct {
	ID         string
	URL        string
	Reading    pressure.Reading // the last one, however old
	HasReading bool             // Reading is younger than pressure.Config.Absent
	KVUsage    float64          // aged and with our own tokens, 0..1; the pool's mean when HasReading is false
	InFlight   int              // this replica's requests there
	Tokens     int              // their prompt tokens and half of their expected output
	Down       bool
	Drained    bool    // it gets no new requests
	Suspect    bool    // it seems to hang, and gets requests only where no other is left
	Why        string  // why it is down or drained, or what is wrong with it
	Open       bool    // the breaker's view
	Wait       float64 // expected seconds that a prompt of the mean length loses there
	Score      float64 // 1/(1+Wait)
	Life       uint64  // another one than before: it was restarted meanwhile

	PrefillRate float64 // learned, prompt tokens per second
	DecodeRate  float64 // learned, tokens per second of one request
}

// Snapshot tells how every backend stands, in the order of the set.
func (p *Pool) Snapshot() []BackendState {
	cfg, now := p.config(), p.now()
	age := p.pressure().OrDefaults()
	set := *p.set.Load()
	out := make([]BackendState, len(set))
	for i, b := range set {
		out[i].Open = p.open(b.id)
	}
	var r round

	p.mu.Lock()
	defer p.mu.Unlock()
	r.all(set)
	p.fill(&r, age, now)
	typical := choose.Need{PromptTokens: int(p.meanPrompt)}
	for i, b := range set {
		s, c := &out[i], &r.cands[i]
		s.ID, s.URL, s.Life = b.id, b.url, b.life
		s.Reading = b.reading
		_, s.HasReading = b.weigh(now, age)
		s.KVUsage = c.KVUsage()
		s.InFlight, s.Tokens = b.all.requests, b.all.tokens
		s.Down, s.Drained, s.Suspect = b.down != nil, b.drained.why(now) != "", c.Suspect
		switch condition := b.vitals.condition(); {
		case s.Down:
			s.Why = b.down.Error()
		case s.Drained:
			s.Why = b.drained.why(now)
		case condition != "well":
			s.Why = condition
		case !b.contact.reached(now, age.Absent):
			s.Why = b.contact.why()
		}
		s.Wait = choose.Wait(cfg, *c, typical)
		s.Score = choose.Score(s.Wait)
		s.PrefillRate, s.DecodeRate = c.PrefillRate, c.DecodeRate
	}
	return out
}
