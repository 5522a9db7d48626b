package pool

import "github.com/foregate/foregate/tiers/pressure"

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
	Why        string  // why it is down
	Open       bool    // the breaker's view
	Wait       float64 // expected seconds that a prompt of the mean length loses there
	Score      float64 // 1/(1+Wait)

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
	cands := make([]Candidate, len(set))

	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill(cands, set, age, now)
	typical := Demand{PromptTokens: int(p.meanPrompt)}
	for i, b := range set {
		s, c := &out[i], &cands[i]
		s.ID, s.URL = b.id, b.url
		s.Reading = b.reading
		_, s.HasReading = pressure.Weight(b.reading.At, now, age)
		s.KVUsage = c.usage()
		s.InFlight, s.Tokens = b.all.requests, b.all.tokens
		if b.down != nil {
			s.Down, s.Why = true, b.down.Error()
		}
		s.Wait = wait(cfg, c, typical)
		s.Score = Score(s.Wait)
		s.PrefillRate, s.DecodeRate = c.PrefillRate, c.DecodeRate
	}
	return out
}

// Healthy tells whether some backend is neither down nor Open.
func (p *Pool) Healthy() bool {
	for _, b := range *p.set.Load() {
		if !p.open(b.id) && !p.isDown(b) {
			return true
		}
	}
	return false
}
