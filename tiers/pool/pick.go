package pool

import (
	"cmp"
	"math"

	"github.com/foregate/foregate/tiers/prefix"
)

// PickInto chooses a backend and makes l a lease on it; the request counts there until Done. The error is a
// *NoBackendError, or a *FullError if backends only exceed the demand's limits; l is then unchanged. A round has three
// steps: query breaker and fleet (begin), decide under the lock (decide), and notify (tell). If the backends were
// replaced meanwhile, a round that finds none is repeated.
func (p *Pool) PickInto(l *Lease, d *Demand) error {
	r := p.scratch.Get().(*round)
	defer p.scratch.Put(r)
	r.turn = p.turn.Add(1) - 1
	for {
		set := p.set.Load()
		r.begin(p, d, *set)
		err := p.decide(r, d, l)
		if err == nil {
			p.tell(r)
			return nil
		}
		if p.set.Load() == set {
			return err
		}
	}
}

// decide chooses one of the backends and commits the choice.
func (p *Pool) decide(r *round, d *Demand, l *Lease) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.need = p.need(d)
	r.need.hasHome = r.keyed
	p.fill(r)
	r.usable(d)
	p.warmth(r, d)
	p.shared(r, d)
	r.picked = choose(r.policy, r.cands, &r.need, r.turn)
	if r.picked < 0 {
		return p.noBackendError(r, d)
	}
	p.commit(r, d, l)
	return nil
}

// need converts the demand for choose. The caller holds mu.
func (p *Pool) need(d *Demand) need {
	n := need{Admission: d.Admission, prompt: max(d.PromptTokens, 0), output: max(d.OutputTokens, 0)}
	if d.PromptBytes > 0 {
		n.prompt = p.length.Of(d.PromptBytes)
	}
	n.longest = int(math.Ceil(cmp.Or(d.LongestShare, 1) * float64(n.prompt)))
	if n.MaxUsage > 0 {
		n.many = d.answers() > manyAnswers
		if !n.Now {
			output, _ := p.output(d)
			n.hold, n.holdOne = d.holds(n.prompt, n.longest)+output, n.longest+output/d.answers()
		}
	}
	return n
}

// fill sets the load of each candidate. The caller holds mu.
func (p *Pool) fill(r *round) {
	m := meanOf(r.set, r.now)
	m.prompt = float64(p.meanPrompt)
	m.output, m.variance = p.outputs.Of(-1, 0)
	for i, b := range r.set {
		c := &r.cands[i]
		c.down = p.out(b)
		b.candidate(c, &m, r)
		if p.o.External {
			c.hosted(b.pausedUntil, r.now)
		}
		c.placed = b.cache.Placed() / b.engines()
	}
}

// shared sets the prompt tokens that each candidate need not hold twice: cached prefixes that other requests use now.
// Our own requests are known; other replicas' requests are assumed to use a prefix as often as ours have. The caller
// holds mu.
func (p *Pool) shared(r *round, d *Demand) {
	others := 1 - math.Pow(1-float64(p.inUse), float64(r.replicas-1))
	for i, b := range r.set {
		if c := &r.cands[i]; c.cached > 0 {
			own := b.account.shares(d.Parts[:], r.need.prompt, c.cached)
			c.shared = max(own, int(others*float64(c.cached)))
		}
	}
}

// commit makes l a lease on the chosen backend and counts it. The caller holds mu.
func (p *Pool) commit(r *round, d *Demand, l *Lease) {
	b, c, prompt := r.set[r.picked], &r.cands[r.picked], r.need.prompt
	p.meanPrompt.Learn(c.uncached(&r.need))
	if c.cached > 0 {
		p.inUse.Learn(float64(b.account.shares(d.Parts[:], prompt, c.cached)) / float64(c.cached))
	}
	output, variance := p.output(d)
	held := max(d.holds(prompt, r.need.longest)-c.shared, 0)
	*l = Lease{
		pool: p, backend: b, engine: b.identity.kind, bytes: d.PromptBytes, answers: d.answers(), kind: d.kind(), spare: d.Optional,
		start: r.now, ahead: c.ahead(), shared: prompt - held, output: output, variance: variance, maxOutput: d.MaxOutput * d.answers(),
		whole: d.Whole, parts: d.Parts, prompt: prompt, cachedShare: float64(min(c.cached, prompt)) / float64(max(prompt, 1)),
		totals: totals{requests: d.answers(), waiting: d.answers(), queued: int(c.uncached(&r.need)), prompt: held},
	}
	b.account.begin(l)
	p.leave(r, d)
	r.placements = p.warm.Place(r.placements[:0], d.parts(), prompt, b.cache, r.now)
	b.counts.expected += float64(min(c.cached, prompt))
	b.counts.prompt += float64(prompt)
	b.hits.Expect(float64(c.expected), float64(prompt))
}

// manyAnswers is how many answers of one request are forecast like as many requests. More than that may all be longer than
// usual, since they are alike, and begin at once: they are forecast at their limit.
const manyAnswers = 8

// output returns the expected tokens of all answers, and their variance. The caller holds mu.
func (p *Pool) output(d *Demand) (tokens int, variance float64) {
	if d.NoAnswer {
		return 0, 0
	}
	each, variance := p.outputs.Of(d.kind(), d.MaxOutput)
	if d.answers() > manyAnswers && d.MaxOutput > 0 {
		each, variance = float64(d.MaxOutput), 0
	}
	return int(each) * d.answers(), variance * float64(d.answers())
}

// tell shares the placement with the fleet and the metrics.
func (p *Pool) tell(r *round) {
	if len(r.placements) > 0 {
		p.o.Fleet.Place(p.o.Name, r.placements)
	}
	p.score.Observe(1 / (1 + r.cands[r.picked].wait(&r.need)))
	if r.prevented() {
		p.prevented.Inc()
	}
}

// warmth sets how much of the prompt each candidate has in its cache: by placements, and all of it on the backend that
// has just computed it. The caller holds mu.
func (p *Pool) warmth(r *round, d *Demand) {
	p.findWarm(r.set, d, r.need.prompt, func(i, tokens int, main bool) {
		if c := &r.cands[i]; tokens > c.expected {
			c.expected, c.main = tokens, main
		}
	})
	for i, b := range r.set {
		c := &r.cands[i]
		c.cached = int(float64(c.expected) * b.hits.Trust())
		if d.WarmBackend != "" && b.id == d.WarmBackend {
			c.cached, c.main = max(r.need.prompt-1, 0), true
		}
	}
}

// Cached returns how many tokens of a prompt the pool has in the cache of one backend that gets requests, at most, as placements
// tell.
func (p *Pool) Cached(d *Demand) (tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := *p.set.Load()
	p.findWarm(set, d, d.PromptTokens, func(i, expected int, _ bool) {
		if b := set[i]; !p.out(b) {
			tokens = max(tokens, int(float64(expected)*b.hits.Trust()))
		}
	})
	return tokens
}

// findWarm is [prefix.Table.Find] by the place of a backend in a set. The caller holds mu.
func (p *Pool) findWarm(set []*backend, d *Demand, prompt int, found func(i, tokens int, main bool)) {
	p.warm.Find(d.parts(), prompt, func(cache *prefix.Cache, tokens int, main bool) {
		if i := cache.Index; i < len(set) && set[i].cache == cache { // else it came later, or is gone
			found(i, tokens, main)
		}
	})
}

// leave removes an expected prefix that the engine has no space for: most such expectations on that backend were wrong.
// It removes one at a time, because the remaining ones may fit now. The caller holds mu.
func (p *Pool) leave(r *round, d *Demand) {
	for i, b := range r.set {
		if i != r.picked && r.cands[i].expected > r.cands[r.picked].expected && b.hits.Trust() < 1 {
			b.hits.Forgive()
			p.warm.Remove(d.parts(), b.cache)
		}
	}
}
