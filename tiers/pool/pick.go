package pool

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// ErrNoBackend matches every failed pick.
var ErrNoBackend = errors.New("no backend")

// Demand is what a request asks of a backend.
type Demand struct {
	PromptTokens int      // estimated or counted
	OutputTokens int      // expected
	Exclude      []string // ids of backends that were tried already
}

// NoBackendError tells why nothing could be picked. Each backend is counted
// once, under the first of Down, Broken, Excluded and Full that applies.
type NoBackendError struct {
	Pool     string
	Total    int
	Down     int   // refused a connection
	Broken   int   // breaker open
	Excluded int   // tried already
	Full     int   // the prompt is longer than the whole KV cache
	Last     error // why the one that went down last did; nil when none is down
}

// Error carries the numbers.
func (e *NoBackendError) Error() string {
	s := fmt.Sprintf("pool %s: no backend among %d: %d down, %d broken, %d tried already, %d with a cache smaller than the prompt",
		e.Pool, e.Total, e.Down, e.Broken, e.Excluded, e.Full)
	if e.Last != nil {
		s += ", last: " + e.Last.Error()
	}
	return s
}

// Is matches ErrNoBackend.
func (e *NoBackendError) Is(target error) bool { return target == ErrNoBackend }

// Unwrap is why the last backend went down.
func (e *NoBackendError) Unwrap() error { return e.Last }

// Pick chooses a backend and counts the request as under way there until the
// lease's Done. The error is a *NoBackendError.
func (p *Pool) Pick(d Demand) (*Lease, error) {
	cfg, age, now := p.config(), p.pressure().OrDefaults(), p.now()
	scratch := p.scratch.Get().(*[]Candidate)
	defer p.scratch.Put(scratch)

	// Open and the settings are not our code, so they are asked before the lock
	// is taken.
	set := *p.set.Load()
	cands := (*scratch)[:0]
	for _, b := range set {
		cands = append(cands, Candidate{Broken: p.open(b.id), Excluded: slices.Contains(d.Exclude, b.id)})
	}
	*scratch = cands

	p.mu.Lock()
	p.fill(cands, set, age, now)
	i := Choose(cfg, cands, d, p.turn)
	p.turn++
	if i < 0 {
		err := p.none(set, cands, d)
		p.mu.Unlock()
		return nil, err
	}
	p.meanPrompt += (float64(max(d.PromptTokens, 0)) - p.meanPrompt) * promptShare
	l := p.lease(set[i], &cands[i], d, now)
	set[i].start(l.part, now)
	p.mu.Unlock()

	set[i].metrics.inflight.Inc()
	p.score.Observe(Score(wait(cfg, &cands[i], d)))
	return l, nil
}

// fill completes the candidates. The caller holds mu.
func (p *Pool) fill(cands []Candidate, set []*backend, age pressure.Config, now time.Time) {
	m := meanOf(set, now, age)
	m.prompt = p.meanPrompt
	for i, b := range set {
		b.candidate(&cands[i], m, now, age)
	}
}

// none says why no candidate would do. The caller holds mu.
func (p *Pool) none(set []*backend, cands []Candidate, d Demand) error {
	e := &NoBackendError{Pool: p.name, Total: len(set)}
	var last time.Time
	for i := range cands {
		switch c := &cands[i]; {
		case c.Down:
			e.Down++
			if b := set[i]; e.Last == nil || b.downAt.After(last) {
				e.Last, last = b.down, b.downAt
			}
		case c.Broken:
			e.Broken++
		case c.Excluded:
			e.Excluded++
		case c.tooSmall(d):
			e.Full++
		}
	}
	return e
}
