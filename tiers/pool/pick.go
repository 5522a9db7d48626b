package pool

import (
	"cmp"
	"math"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pool/estimate"
)

// PickInto chooses a backend and makes l a lease on it; the request counts there until Done. The error is a
// *NoBackendError, or a *FullError if backends only exceed the demand's limits; l is then unchanged. In a large pool it
// tries a sample first, then all. A round has four steps: select backends (sample, all), query breaker, index and fleet
// (ask), decide under the lock (decide), and notify (tell). If the backends were replaced meanwhile, a round that finds
// none is repeated.
func (p *Pool) PickInto(l *Lease, d *Demand) error {
	r := p.scratch.Get().(*round)
	defer p.scratch.Put(r)
	r.turn = p.turn.Add(1) - 1
	for {
		set := p.set.Load()
		err := p.pickOnce(r, d, l)
		if err == nil {
			p.tell(r, l)
			return nil
		}
		if p.set.Load() == set {
			return err
		}
	}
}

// pickOnce makes one round over the backends that there are at its begin.
func (p *Pool) pickOnce(r *round, d *Demand, l *Lease) error {
	r.begin(p, d)
	if len(r.set) > maxCandidates {
		p.sample(r, d)
		r.ask(p, d)
		if p.decide(r, d, l) == nil {
			return nil
		}
	}
	r.all()
	r.ask(p, d)
	return p.decide(r, d, l)
}

// decide chooses one of the round's backends and commits the choice.
func (p *Pool) decide(r *round, d *Demand, l *Lease) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.need = p.need(r, d)
	p.fill(r)
	r.usable(d)
	p.warmth(r, d)
	p.shared(r, d)
	r.picked = choose.Choose(r.policy, r.cands, r.need, r.turn)
	if r.picked < 0 {
		return p.noBackendError(r, d)
	}
	p.commit(r, d, l)
	return nil
}

// need converts the demand for package choose. The caller holds mu.
func (p *Pool) need(r *round, d *Demand) choose.Request {
	n := choose.Request{PromptTokens: max(d.PromptTokens, 0), OutputTokens: max(d.OutputTokens, 0), HasHome: r.keyed}
	if d.PromptBytes > 0 {
		n.PromptTokens = p.length.Of(d.PromptBytes)
	}
	n.LongestPrompt = int(math.Ceil(cmp.Or(d.LongestShare, 1) * float64(n.PromptTokens)))
	if d.Admission.MaxUsage > 0 {
		n.MaxUsage, n.MaxQueue, n.Many = d.Admission.MaxUsage, d.Admission.MaxQueue, d.answers() > manyAnswers
		n.WaitForCapacity, n.WaitedSeconds = d.Admission.CanWaitForWarm, d.Admission.Waited.Seconds()
		if !d.Admission.Now {
			output, _ := p.output(d)
			n.HoldTokens, n.HoldOne = d.holds(n.PromptTokens, n.LongestPrompt)+output, n.LongestPrompt+output/d.answers()
		}
	}
	return n
}

// fill makes a candidate of each backend with its load. The caller holds mu.
func (p *Pool) fill(r *round) {
	m := p.meanNow(r.now)
	m.output, m.variance = p.outputs.Of(-1, 0)
	r.cands = append(r.cands[:0], make([]choose.Candidate, len(r.backends))...)
	for i, b := range r.backends {
		c := &r.cands[i]
		c.Down = p.out(b, r.now)
		b.candidate(c, &m, &r.moment)
		c.Ramp = min(c.Ramp, r.views[i].ramp)
		c.Placed = p.warm.Placed(b.number) / float64(max(b.reading.Engines, 1))
	}
}

// shared sets the prompt tokens that each candidate need not hold twice: cached prefixes that other requests use now.
// Our own requests are known; other replicas' requests are assumed to use a prefix as often as ours have. The caller
// holds mu.
func (p *Pool) shared(r *round, d *Demand) {
	others := 1 - math.Pow(1-float64(p.inUse), float64(r.replicas-1))
	for i, b := range r.backends {
		if c := &r.cands[i]; c.Cached > 0 {
			own := b.account.Using(d.Parts[:], r.need.PromptTokens, c.Cached)
			c.Shared = max(own, int(others*float64(c.Cached)))
		}
	}
}

// commit makes l a lease on the chosen backend and counts it. The caller holds mu.
func (p *Pool) commit(r *round, d *Demand, l *Lease) {
	b, c, prompt := r.backends[r.picked], &r.cands[r.picked], r.need.PromptTokens
	p.meanPrompt.Learn(float64(max(prompt-c.Cached, 0)))
	if c.Cached > 0 {
		p.inUse.Learn(float64(b.account.Using(d.Parts[:], prompt, c.Cached)) / float64(c.Cached))
	}
	output, variance := p.output(d)
	held := max(d.holds(prompt, r.need.LongestPrompt)-c.Shared, 0)
	*l = Lease{
		pool: p, backend: b, engine: b.identity.kind, bytes: d.PromptBytes, answers: d.answers(), kind: d.kind(), spare: d.Optional,
		request: estimate.Request{
			Began: r.now, Ahead: c.Ahead(), Shared: prompt - held, Answers: d.answers(), Output: output,
			Variance: variance, MaxOutput: d.MaxOutput * d.answers(), Whole: d.Whole, Parts: d.Parts, Owner: l,
		},
	}
	b.account.Start(&l.request, estimate.Totals{
		Requests: d.answers(), Waiting: d.answers(), Queued: max(prompt-c.Cached, 0), PromptTokens: held, Tokens: held + r.need.OutputTokens*d.answers()/2,
	})
	p.leave(r, d)
	r.placed = p.warm.Place(r.placed[:0], d.parts(), prompt, b.number, b.id, r.now)
	b.hits.Expect(float64(r.raw[r.picked]), float64(prompt))
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
func (p *Pool) tell(r *round, l *Lease) {
	if len(r.placed) > 0 {
		p.o.Fleet.Place(p.o.Name, r.placed)
	}
	c, m := &r.cands[r.picked], &l.backend.metrics
	m.expected.Add(float64(min(c.Cached, r.need.PromptTokens)))
	m.prompt.Add(float64(r.need.PromptTokens))
	p.score.Observe(choose.Score(choose.Wait(*c, r.need)))
	if r.prevented() {
		p.prevented.Inc()
	}
}

// warmth sets how much of the prompt each candidate has in its cache: by placements, and all of it on the backend that has just computed it. The caller holds mu.
func (p *Pool) warmth(r *round, d *Demand) {
	prompt := r.need.PromptTokens
	r.raw = append(r.raw[:0], make([]int, len(r.backends))...)
	p.warm.Find(d.parts(), prompt, func(number, tokens int, main bool) {
		b := p.numbered[number]
		if b == nil {
			return
		}
		if i := r.index(b); i >= 0 && tokens > r.cands[i].Cached {
			r.cands[i].Cached, r.cands[i].Main = tokens, main
		}
	})
	for i, b := range r.backends {
		c := &r.cands[i]
		r.raw[i] = c.Cached
		if c.Cached > 0 {
			c.Cached = int(float64(c.Cached) * b.hits.Trust())
		}
		if d.WarmBackend != "" && b.id == d.WarmBackend {
			c.Cached, c.Main = max(prompt-1, 0), true
		}
	}
}

// leave removes an expected prefix that the engine has no space for: most such expectations on that backend were wrong.
// It removes one at a time, because the remaining ones may fit now. The caller holds mu.
func (p *Pool) leave(r *round, d *Demand) {
	for i, b := range r.backends {
		if i != r.picked && r.raw[i] > r.raw[r.picked] && b.hits.Trust() < 1 {
			b.hits.Forgive()
			p.warm.Remove(d.parts(), b.number)
		}
	}
}
