package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// mostParts is how many prefixes a pool remembers: with a few places each, about
// 4 MB.
const mostParts = 1 << 14

// Index knows what is in the prefix caches, where it is told by the engines
// themselves. Chain and Cached are asked under the pool's lock, so they must be quick;
// none may wait.
type Index interface {
	// Chain appends what names the blocks of a request's prompt to into; nothing where
	// they are not known yet.
	Chain(into []uint64, d *Demand) []uint64
	// Cached is how many leading tokens of such a prompt a backend holds; whole says that
	// these are all that the chain names, so that there may be more. known is false where
	// it cannot tell, and the estimate stands.
	Cached(backend string, chain []uint64) (tokens int, whole, known bool)
	// Learn has the blocks of a prompt found out, by the body that was sent to a
	// backend; it is kept and must not change.
	Learn(key prefix.Key, url string, body []byte)
}

// warmth fills in how much of the prompt each candidate has in its cache. The caller
// holds mu.
func (p *Pool) warmth(s *round, d *Demand, prompt int) {
	s.raw = append(s.raw[:0], make([]int, len(s.backends))...)
	p.warm.Find(d.parts(), prompt, func(number, tokens int, main bool) {
		b := p.numbered[number]
		if b == nil {
			return
		}
		if i := s.index(b); i >= 0 && tokens > s.cands[i].Cached {
			s.cands[i].Cached, s.cands[i].Main = tokens, main
		}
	})
	s.chain = s.chain[:0]
	if p.index != nil {
		s.chain = p.index.Chain(s.chain, d)
	}
	for i, b := range s.backends {
		c := &s.cands[i]
		s.raw[i] = c.Cached
		if c.Cached > 0 {
			c.Cached = int(float64(c.Cached) * b.hits.trust())
		}
		if len(s.chain) == 0 {
			continue
		}
		switch tokens, whole, known := p.index.Cached(b.id, s.chain); {
		case known && whole: // the chain is the prompt's as it was when it was learned
			c.Cached = min(max(tokens, c.Cached), prompt)
		case known:
			c.Cached = min(tokens, prompt)
		}
	}
}

// leave gives up a place that the engine has no room for: where a prompt was expected
// to be warm, most such expectations were wrong, and so it goes elsewhere. One at a
// time: those that stay may fit now. The caller holds mu.
func (p *Pool) leave(s *round, d *Demand, picked int) {
	for i, b := range s.backends {
		if i != picked && s.raw[i] > s.raw[picked] && b.hits.trust() < 1 {
			b.hits.forgive()
			p.warm.Leave(d.parts(), b.number)
		}
	}
}

// place notes where a prompt went, and tells other replicas. The caller holds mu.
func (p *Pool) place(b *backend, d *Demand, prompt int, now time.Time) {
	p.told = p.warm.Place(p.told[:0], d.parts(), prompt, b.number, b.id, now)
	if len(p.told) > 0 && p.fleet != nil {
		p.fleet.Place(p.name, p.told)
	}
}

// rank is the engine behind b's URL that is to take a prompt, so that its next turn
// finds it warm; −1 leaves it to the server. The caller holds mu.
func (p *Pool) rank(b *backend, d *Demand, prompt int) int {
	key := d.key()
	if len(b.reading.Ranks) == 0 || prompt < leastRanked || key == 0 {
		return -1
	}
	if _, known := b.weigh(p.now(), p.pressure().OrDefaults()); !known {
		return -1
	}
	var engines [pressure.MostRanks]choose.Engine
	n := 0
	for _, r := range b.reading.Ranks[:min(len(b.reading.Ranks), pressure.MostRanks)] {
		engines[n] = choose.Engine{KVUsage: r.KVUsage, Requests: float64(r.Running + r.Waiting)}
		n++
	}
	return choose.Rank(p.config(), engines[:n], uint64(key))
}

// leastRanked is the prompt tokens below which the server's own balance is worth more.
const leastRanked = 256

// HearPlaced takes in where other replicas sent prompts.
func (p *Pool) HearPlaced(said []prefix.Placement) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range said {
		if b := p.byID[s.Backend]; b != nil {
			p.warm.Hear(s, b.number, now)
		}
	}
}
