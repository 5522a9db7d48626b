package pool

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Demand is what a request asks of a backend.
type Demand struct {
	PromptTokens int            // counted, or estimated by somebody who knows no better
	PromptBytes  int            // of text from which the pool estimates the tokens; 0: PromptTokens is exact
	IDs          func() []int32 // the prompt's token ids, where they are known; nil: they are not. Only an Index asks
	Salt         string         // that keeps the prompt's blocks apart from others' in an engine's cache; "" is none. Only an Index asks
	OutputTokens int            // expected
	MostOutput   int            // tokens that the answer may have at most; 0 is unknown
	Answers      int            // how many are asked for; 0 is 1
	Whole        bool           // it comes in one piece, so that one does not see it begin

	Limit Limit // of the backend that it goes to

	Parts [prefix.MostParts]prefix.Part // what the prompt begins with; those with Key 0 are absent

	Spare bool // it is of no use where it may wait: neither at a suspect nor at one whose breaker is open, though all of the pool were

	Warm    string   // id of a backend that has computed this very prompt a moment ago; "" is none
	Exclude []string // ids of backends that were tried already
}

// Limit is how full a backend may be, or become, that a request goes to; see
// [choose.Candidate.Above].
type Limit struct {
	Usage float64 // share of the KV cache, 0..1; 0 is no limit
	Queue int     // requests that may wait there; 0 is any number
	Now   bool    // only what is in use now counts, not what it will grow to

	// Patient says that the request can wait for room where it is warm, although there
	// is some elsewhere; Waited is how long it has done so.
	Patient bool
	Waited  time.Duration
}

// Pick chooses a backend and counts the request as under way there until the
// lease's Done. The error is a *NoBackendError, or a *FullError where some would do but
// for the demand's limit.
func (p *Pool) Pick(d Demand) (*Lease, error) {
	l := new(Lease)
	if err := p.PickInto(l, &d); err != nil {
		return nil, err
	}
	return l, nil
}

// PickInto is Pick into the caller's memory; on an error l is untouched.
func (p *Pool) PickInto(l *Lease, d *Demand) error {
	cfg, age, now := p.config(), p.pressure().OrDefaults(), p.now()
	s := p.scratch.Get().(*round)
	defer p.scratch.Put(s)

	p.mu.Lock()
	defer p.mu.Unlock()
	set := *p.set.Load()
	turn := p.turn
	p.turn++
	need := p.need(d)
	i := -1
	if len(set) > mostLooked {
		s.sample(p, set, d, turn, now)
		i = p.choose(s, cfg, need, d, age, now, turn)
	}
	if i < 0 {
		s.all(set)
		i = p.choose(s, cfg, need, d, age, now, turn)
	}
	if i < 0 {
		return p.none(s, need, d)
	}
	b, c := s.backends[i], &s.cands[i]
	p.meanPrompt += (float64(max(need.PromptTokens-c.Cached, 0)) - p.meanPrompt) * promptShare
	p.met(b, c, d, need.PromptTokens)
	p.lease(l, b, c, need, d, now)
	b.start(l.part, now)
	b.under.start(l)
	p.book(s, i, need, turn)
	p.leave(s, d, i)
	p.place(b, d, need.PromptTokens, now)
	b.metrics.inflight.Inc()
	b.hits.expect(float64(s.raw[i]), float64(need.PromptTokens))
	b.metrics.expected.Add(float64(min(c.Cached, need.PromptTokens)))
	b.metrics.prompt.Add(float64(need.PromptTokens))
	p.score.Observe(choose.Score(choose.Wait(cfg, *c, need)))
	return nil
}

// need is the demand as Choose sees it. The caller holds mu.
func (p *Pool) need(d *Demand) choose.Need {
	n := choose.Need{PromptTokens: max(d.PromptTokens, 0), OutputTokens: max(d.OutputTokens, 0)}
	// Replicas that hear of each other need not guess where the others would send it.
	n.Keyed = d.key() != 0 && p.fleet != nil && !p.fleet.Sharing()
	if d.PromptBytes > 0 {
		n.PromptTokens = p.length.of(d.PromptBytes)
	}
	if d.Limit.Usage > 0 {
		n.Limit, n.Queue = d.Limit.Usage, d.Limit.Queue
		n.Patient, n.Waited = d.Limit.Patient, d.Limit.Waited.Seconds()
		if !d.Limit.Now {
			output, _ := p.outputs.of(kindOf(d), d.MostOutput)
			n.Holds = n.PromptTokens + int(output)*d.answers()
		}
	}
	return n
}

// key names the longest part of the prompt, 0 where nothing is known of it.
func (d *Demand) key() prefix.Key {
	for i := len(d.Parts) - 1; i >= 0; i-- {
		if k := d.Parts[i].Key; k != 0 {
			return k
		}
	}
	return 0
}

func (d *Demand) answers() int { return max(d.Answers, 1) }

// parts are those that are there.
func (d *Demand) parts() []prefix.Part {
	n := 0
	for n < len(d.Parts) && d.Parts[n].Key != 0 {
		n++
	}
	return d.Parts[:n]
}

// choose fills the candidates in and decides. The caller holds mu.
func (p *Pool) choose(s *round, cfg choose.Config, need choose.Need, d *Demand, age pressure.Config, now time.Time, turn uint64) int {
	p.fill(s, age, now)
	key := d.key()
	for i, b := range s.backends {
		c := &s.cands[i]
		c.Broken, c.Excluded = p.open(b.id), slices.Contains(d.Exclude, b.id)
		if d.Spare {
			c.Broken = c.Suspect || p.shut(b.id)
		}
		if key != 0 {
			c.Home = prefix.Rendezvous(key, b.hash)
		}
	}
	p.warmth(s, d, need.PromptTokens)
	for i, b := range s.backends {
		if d.Warm != "" && b.id == d.Warm {
			s.cands[i].Cached, s.cands[i].Main = max(need.PromptTokens-1, 0), true
		}
	}
	p.shared(s, d, need.PromptTokens)
	return choose.Choose(cfg, s.cands, need, turn)
}

// fill completes the candidates with what is known of their load. The caller holds mu.
func (p *Pool) fill(s *round, age pressure.Config, now time.Time) {
	m := p.meanNow(now, age)
	s.cands = append(s.cands[:0], make([]choose.Candidate, len(s.backends))...)
	for i, b := range s.backends {
		b.candidate(&s.cands[i], &m, now, age)
		s.cands[i].Ramp = min(s.cands[i].Ramp, p.ramp(b.id))
		p.foresee(&s.cands[i], b, &m, now)
		s.cands[i].Placed = p.warm.Placed(b.number) / float64(max(b.reading.Engines, 1))
	}
	s.silence(now)
}

// meanFor is how long the mean of a large pool is good for.
const meanFor = 20 * time.Millisecond

// meanNow is the pool's mean; that of a large pool is a little old. The caller holds
// mu.
func (p *Pool) meanNow(now time.Time, age pressure.Config) mean {
	set := *p.set.Load()
	if old := now.Sub(p.meanAt); len(set) <= mostLooked || old < 0 || old > meanFor {
		p.mean, p.meanAt = meanOf(set, now, age), now
	}
	p.mean.prompt = p.meanPrompt
	return p.mean
}

// lease makes l a lease on b, which was chosen as c. The caller holds mu.
func (p *Pool) lease(l *Lease, b *backend, c *choose.Candidate, need choose.Need, d *Demand, now time.Time) {
	prompt := need.PromptTokens
	held := max(prompt-c.Shared, 0)
	kind := kindOf(d)
	output, spread := p.outputs.of(kind, d.MostOutput)
	*l = Lease{
		pool: p, backend: b, start: now, bytes: d.PromptBytes, key: d.key(), parts: d.Parts,
		ahead: c.Ahead(), shared: prompt - held, answers: d.answers(), output: int(output) * d.answers(), spread: spread * float64(d.answers()), kind: kind, most: d.MostOutput * d.answers(), whole: d.Whole, spare: d.Spare,
		rank: p.rank(b, d, prompt),
		part: tally{requests: 1, waiting: 1, queued: max(prompt-c.Cached, 0), held: held, tokens: held + need.OutputTokens/2},
	}
}

// book counts a pick that avoided an eviction: it pushes out less than half of what it would
// have on the backend whose turn it was, which is a block at least.
func (p *Pool) book(s *round, picked int, need choose.Need, turn uint64) {
	other := &s.cands[turn%uint64(len(s.cands))]
	if out := other.Evicts(need); out >= float64(max(other.BlockSize, 1)) && 2*s.cands[picked].Evicts(need) < out {
		p.prevented.Inc()
	}
}
