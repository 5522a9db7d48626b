package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

// watch sees to one pool's card. All but the card belongs to the goroutine of run.
type watch struct {
	services     *services
	pool         Pool
	capabilities atomic.Pointer[Capabilities] // without a time: it only says that a probe has failed

	lastBackend Backend   // the last time; its ID is empty before the first
	model       modelCard // what it told then of the model
	modelsAt    time.Time // when that was last looked at
	due         time.Time // when all is asked again
	fails       int       // in a row
	parts       int       // probes in a row that brought not all
	tries       int       // probes so far: their questions differ

	deaths int       // in a row that scoring was the cause of
	opens  time.Time // when it may be asked to score again
}

// firstLooks is how many times more often a pool is looked at before its first probe: the gateway starts with it.
const firstLooks = 20

// probedCapabilities is the card, unless it only says that a probe has failed.
func (w *watch) probedCapabilities() *Capabilities {
	if c := w.capabilities.Load(); c != nil && !c.At.IsZero() {
		return c
	}
	return nil
}

// run probes when there is reason to, until ctx ends.
func (w *watch) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.step(ctx)
		pause := w.services.pace.look
		if w.lastBackend.ID == "" {
			pause /= firstLooks
		}
		timer.Reset(pause)
	}
}

// step probes if there is reason to.
func (w *watch) step(ctx context.Context) {
	set, now := w.pool.Backends(), w.services.now()
	b, why := w.next(set, now)
	if why == "" && now.Sub(w.modelsAt) >= w.services.pace.models && w.fails == 0 && w.lastBackend.ID != "" {
		w.modelsAt = now
		if at := find(set, w.lastBackend.ID); at >= 0 && set[at].Up && w.remodelled(ctx, set[at]) {
			b, why = set[at], "its model's card has changed"
		}
	}
	if why == "" {
		return
	}
	if c := w.capabilities.Load(); c != nil && !c.At.IsZero() && b.ID == c.Backend && !c.of(b) {
		w.capabilities.Store(&Capabilities{Failed: why + ", and it is being asked again"}) // what was known was of another life
	}
	select {
	case <-ctx.Done():
		return
	case w.services.slots <- struct{}{}:
	}
	defer func() { <-w.services.slots }()
	w.probe(ctx, b, why)
}

// find returns where a backend is in the set, or −1.
func find(set []Backend, id string) int {
	return slices.IndexFunc(set, func(b Backend) bool { return b.ID == id })
}

// next says whom to probe now and why; no reason is nobody.
func (w *watch) next(set []Backend, now time.Time) (b Backend, why string) {
	at := find(set, w.lastBackend.ID)
	switch {
	case w.lastBackend.ID == "":
		why = "it was not probed yet"
	case at < 0:
		why = "the backend that was asked is gone"
	case set[at].Up && set[at].Life != w.lastBackend.Life:
		return set[at], "its engine was restarted"
	case set[at].Up && dialect.Of(set[at].Engine) != dialect.Of(w.lastBackend.Engine):
		return set[at], "its engine is of another kind than was thought"
	case now.Before(w.due):
		return b, ""
	case w.fails > 0:
		why = "the last probe failed"
	default:
		why = "it is time"
	}
	// One that answered is asked again; after one that did not it is the next one's turn.
	if at >= 0 && set[at].Up && w.fails == 0 {
		return set[at], why
	}
	for i := range set {
		if b := set[(at+1+i)%len(set)]; b.Up {
			return b, why
		}
	}
	return b, ""
}

// remodelled reports whether the engine tells something else of its model than when it was
// probed. No answer is none.
func (w *watch) remodelled(ctx context.Context, b Backend) bool {
	ctx, cancel := context.WithTimeout(ctx, maxCardBytes)
	defer cancel()
	e := probeRun{asker: w.asker(b), missing: map[string]string{}}
	return e.window(ctx) == nil && e.model != w.model
}

func (w *watch) asker(b Backend) *asker {
	a := &asker{
		transport: w.pool.Transport, timeout: w.services.timeout, url: b.URL, model: w.pool.Model, engine: b.Engine, priority: w.pool.Priority,
		upstream: w.services.upstream,
	}
	if w.pool.Credentials != nil {
		a.credentials = w.pool.Credentials()
	}
	return a
}

// probe asks b everything and publishes what that brings.
func (w *watch) probe(ctx context.Context, b Backend, why string) {
	within, cancel := context.WithTimeoutCause(ctx, maxProbeTime, fmt.Errorf("the probe took longer than %v", maxProbeTime))
	defer cancel()
	e := probeRun{asker: w.asker(b), variant: w.tries}
	began := w.services.now()
	if began.Before(w.opens) {
		e.closed = "the engine died when it was last asked to score; it is not asked before " + w.opens.UTC().Format(time.TimeOnly+" UTC")
	} else if w.pool.Optional != nil && !w.pool.Optional() {
		e.closed = "its pool is too full to be asked, or scoring there is closed for a while"
	}
	if was := w.capabilities.Load(); was != nil && was.Backend == b.ID && was.of(b) {
		e.found.EOS = slices.Clone(was.EOS) // not every probe sees an end
	}
	err := e.run(within)
	if ctx.Err() != nil {
		return // we are ending, which says nothing of the engine
	}
	if w.pool.Ended != nil {
		w.pool.Ended(b.ID, err)
	}
	now := w.services.now()
	w.lastBackend, w.model, w.modelsAt = b, e.model, now
	w.tries++
	e.found.At, e.found.Backend, e.found.Life = now, b.ID, b.Life
	w.schedule(&e, err, now)
	was := w.capabilities.Load()
	is := settle(was, &e, err, w.pool.Backends())
	w.tell(was, is, why, now.Sub(began))
	w.capabilities.Store(is)
}

// schedule says when to probe again.
func (w *watch) schedule(e *probeRun, err error, now time.Time) {
	p := &w.services.pace
	switch {
	case err != nil:
		w.fails++
		w.due = now.Add(doubled(p.minRetry, w.fails, p.maxRetry))
	case e.weak != "" || e.closed != "":
		w.fails = 0
		w.parts++
		w.due = now.Add(doubled(p.part, w.parts, p.again))
	default:
		w.fails, w.parts = 0, 0
		// Not in step with other pools and replicas.
		w.due = now.Add(time.Duration(float64(p.again) * (0.9 + 0.2*rand.Float64())))
	}
	switch {
	case e.deadly:
		w.deaths++
		w.opens = now.Add(doubled(p.closed, w.deaths, p.maxClosed))
	case e.found.Scoring != "":
		w.deaths = 0
	}
}

// doubled is the n-th pause, from 1 on: each is twice the one before, to most at most.
func doubled(minimum time.Duration, n int, maximum time.Duration) time.Duration {
	return min(minimum<<min(n-1, 20), maximum)
}

// settle makes the card to publish of the last one and of what a probe has brought. One
// that failed leaves the last good card of the same life standing, and so does one in which
// scoring failed though it had worked.
func settle(was *Capabilities, e *probeRun, err error, set []Backend) *Capabilities {
	good := was != nil && !was.At.IsZero()
	if good {
		at := find(set, was.Backend)
		good = at >= 0 && was.of(set[at])
	}
	if err == nil {
		is := e.found
		is.Failed = e.weak
		if good && was.Backend == is.Backend && is.Scoring == "" && was.Scoring != "" && e.weak+e.closed != "" && !e.deadly {
			kept := *was
			kept.Failed = e.weak + e.closed
			return &kept
		}
		return &is
	}
	if good {
		kept := *was
		kept.Failed = err.Error()
		return &kept
	}
	return &Capabilities{Backend: e.found.Backend, Life: e.found.Life, Engine: e.found.Engine, Model: e.found.Model, Failed: err.Error()}
}

// of reports whether c is of the life that a backend's engine is in, by the rules of its kind.
func (c *Capabilities) of(b Backend) bool {
	return c.Life == b.Life && dialect.Of(c.Engine) == dialect.Of(b.Engine)
}

// unlike reports whether two cards say different things of an engine. How they say it does not
// count.
func unlike(a, b *Capabilities) bool {
	if a == nil || b == nil {
		return a != b
	}
	return !reflect.DeepEqual(a.said(), b.said())
}

// said is what a card says, without its time, its backend and its reasons.
func (c *Capabilities) said() Capabilities {
	s := *c
	s.At, s.Backend, s.Life, s.Missing = time.Time{}, "", 0, nil
	for _, m := range c.Missing {
		s.Missing = append(s.Missing, MissingCapability{Name: m.Name})
	}
	if s.Failed != "" {
		s.Failed = "failed"
	}
	return s
}

// tell logs a card that is unlike the one before.
func (w *watch) tell(was, is *Capabilities, why string, took time.Duration) {
	if !unlike(was, is) {
		return
	}
	missing := make([]string, len(is.Missing))
	for i, m := range is.Missing {
		missing[i] = m.Name + ": " + m.Reason
	}
	event, text := w.services.log.Info(), "engines were probed"
	if is.Failed != "" {
		event, text = w.services.log.Warn().Str("failed", is.Failed), "engines cannot be probed, or not wholly"
	}
	event.Str("pool", w.pool.Name).Str("backend", is.Backend).Str("why", why).Dur("took", took).
		Str("tokenizer", is.Tokenizer[:min(len(is.Tokenizer), 12)]).Str("template", is.Template[:min(len(is.Template), 12)]).
		Str("scoring", string(is.Scoring)).Int("window", is.Window).Strs("missing", missing).Msg(text)
}
