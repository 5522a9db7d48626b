package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watch sees to one pool's card. All but the card and what others told belongs to the goroutine of run.
type watch struct {
	prober       *Prober
	pool         Pool
	capabilities atomic.Pointer[Capabilities] // without a time: nothing can be used yet
	progress     atomic.Pointer[Progress]

	backend  Backend   // whose life the answers are of; its ID is empty before the first
	since    time.Time // when it was begun to be asked
	born     time.Time // what was told before is of another life
	why      string    // it is asked
	run      *probeRun
	states   []state // of the questions
	modelsAt time.Time
	foreign  bool // what is known is another replica's
	taken    *record
	logged   string // what the last line in the log was about

	deaths int       // in a row that scoring was the cause of
	opens  time.Time // when it may be asked to score again

	mu    sync.Mutex
	heard heard  // from another replica
	told  string // what others may know
	fresh bool   // it was not told yet
	last  time.Time
}

// state is how far a question is.
type state struct {
	known  bool      // it was answered in this life
	fails  int       // tries in a row without a good answer
	due    time.Time // when it is asked
	failed string    // why the last try brought no good answer; "": nothing is to be asked
}

// open reports whether the question is to be asked, now or later.
func (s *state) open() bool { return !s.known || s.failed != "" }

// Progress is how far the probe of a pool's engines is.
type Progress struct {
	Asked  []string  // questions that were answered
	Open   []string  // those that were not yet, or will be asked again
	Failed string    // why the last of them brought nothing
	Next   time.Time // when the next of them is asked; zero: none is
	Shared bool      // another replica asks, and what it finds out is taken over
}

// firstLooks is how many times more often a pool is looked at before its first probe: the gateway starts with it.
const firstLooks = 20

// probedCapabilities is the card, unless nothing can be used yet.
func (w *watch) probedCapabilities() *Capabilities {
	if c := w.capabilities.Load(); c != nil && !c.At.IsZero() {
		return c
	}
	return nil
}

// loop asks when there is reason to, until ctx ends.
func (w *watch) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := w.prober.pace.look
		if w.backend.ID == "" {
			pause /= firstLooks
		}
		if w.step(ctx) {
			pause = 0
		}
		timer.Reset(pause)
	}
}

// step asks the next question, if there is one, and reports whether there may be more.
func (w *watch) step(ctx context.Context) (more bool) {
	if !w.prober.Ready() {
		return false
	}
	set, now := w.pool.Backends(), time.Now()
	if b, why := w.next(set); why != "" {
		w.begin(b, why, now)
	}
	if w.backend.ID == "" || w.takeOver(set, now) {
		return false
	}
	if at := find(set, w.backend.ID); now.Sub(w.modelsAt) >= w.prober.pace.models && at >= 0 && set[at].Up && w.states[0].known {
		w.modelsAt = now
		if w.remodelled(ctx, set[at]) {
			w.begin(set[at], "its model's card has changed", now)
		}
	}
	i := w.question(now)
	if i < 0 {
		return false
	}
	fails := w.states[i].fails
	if i == 0 {
		fails = 0
	}
	b, ok := w.whom(set, fails)
	if ok {
		w.ask(ctx, b, i)
	}
	return ok
}

// find returns where a backend is in the set, or −1.
func find(set []Backend, id string) int {
	return slices.IndexFunc(set, func(b Backend) bool { return b.ID == id })
}

// next says whose life is probed from now on and why; no reason: the same one's as before.
func (w *watch) next(set []Backend) (b Backend, why string) {
	at := find(set, w.backend.ID)
	switch {
	case w.backend.ID == "":
		why = "it was not probed yet"
	case at < 0:
		why = "the backend that was asked is gone"
	case set[at].Up && set[at].Life != w.backend.Life:
		return set[at], "its engine was restarted"
	case set[at].Up && !set[at].like(w.backend):
		return set[at], "its engine is of another kind than was thought"
	default:
		return b, ""
	}
	if at = slices.IndexFunc(set, func(b Backend) bool { return b.Up }); at < 0 {
		return b, ""
	}
	return set[at], why
}

// begin asks all questions, of an engine of which nothing is known. What is known of one that is gone holds for another of
// its pool until that has answered.
func (w *watch) begin(b Backend, why string, now time.Time) {
	gone := w.backend.ID != "" && w.backend.ID != b.ID && b.like(w.backend)
	if w.backend.ID == b.ID {
		w.born = now
	}
	w.backend, w.why, w.since, w.foreign = b, why, now, false
	if run := newRun(w.asker(b)); !gone {
		w.run, w.states = run, make([]state, len(questions))
	} else {
		w.run.asker = run.asker
	}
	for i := range w.states {
		w.states[i].due, w.states[i].failed, w.states[i].fails = now, why, 0
	}
	w.publish()
}

// question returns which question is asked now, or −1. The foundations come first, in their order; of the others one that
// has failed comes after those that are due.
func (w *watch) question(now time.Time) int {
	best := -1
	for i := range w.states {
		s := &w.states[i]
		isDue := s.open() && !now.Before(s.due)
		if i < foundations && !s.known {
			if isDue {
				return i
			}
			return -1
		}
		if isDue && (best < 0 || s.fails < w.states[best].fails) {
			best = i
		}
	}
	return best
}

// whom returns the backend to ask, for a question that has failed so many times: the one that is probed, then others of its
// kind in turn.
func (w *watch) whom(set []Backend, fails int) (b Backend, ok bool) {
	at := max(find(set, w.backend.ID), 0)
	var up []Backend
	for i := range set {
		if b := set[(at+i)%len(set)]; b.Up && b.like(w.backend) {
			up = append(up, b)
		}
	}
	if len(up) == 0 {
		return b, false
	}
	return up[fails%len(up)], true
}

// remodelled reports whether the engine tells something else of its model than when it was
// probed. No answer is none.
func (w *watch) remodelled(ctx context.Context, b Backend) bool {
	ctx, cancel := context.WithTimeout(ctx, maxCardTime)
	defer cancel()
	e := newRun(w.asker(b))
	return e.window(ctx) == nil && e.model != w.run.model
}

// maxCardTime bounds a look at the model's card.
const maxCardTime = 2 * time.Second

func (w *watch) asker(b Backend) *asker {
	return &asker{
		upstream: w.prober.Upstream, timeout: w.prober.pace.silence, url: b.URL, model: w.pool.Model, engine: b.Engine,
		priority: w.pool.Priority, credentials: w.pool.Credentials(),
	}
}

// ask asks b a question and publishes what that brings.
func (w *watch) ask(ctx context.Context, b Backend, i int) {
	q, s := &questions[i], &w.states[i]
	unpinned := w.run.unpinned && w.run.url == b.URL
	w.run.asker = w.asker(b) // with the credentials that hold now
	w.run.unpinned, w.run.closed = unpinned, ""
	if time.Now().Before(w.opens) {
		w.run.closed = "the engine died when it was last asked to score; it is not asked before " + w.opens.UTC().Format(time.TimeOnly+" UTC")
	} else if !w.pool.Scores() {
		w.run.closed = "scoring there is closed for a while"
	}
	err := w.run.try(ctx, q)
	if ctx.Err() != nil {
		return // we are ending, which says nothing of the engine
	}
	w.pool.Ended(b.ID, err)
	now := time.Now()
	w.schedule(s, err, now)
	if other, ok := w.whom(w.pool.Backends(), 1); i == 0 && err != nil && ok {
		w.backend = other // it is not even said which model that serves
	}
	if err == nil {
		w.run.found.At = now
		switch p := &w.prober.pace; {
		case w.run.deadly:
			w.deaths++
			w.opens = now.Add(doubled(p.closed, w.deaths, p.maxClosed))
			s.due = w.opens
		case w.run.found.Scoring != "":
			w.deaths = 0
		}
		if i == 0 {
			w.modelsAt = now
			w.recall()
		}
	}
	w.publish()
}

// schedule says when a question is asked again.
func (w *watch) schedule(s *state, err error, now time.Time) {
	p := &w.prober.pace
	switch {
	case err != nil:
		s.fails++
		s.due, s.failed = now.Add(doubled(p.minRetry, s.fails, p.maxRetry)), reason(err)
	case w.run.again != "":
		s.fails++
		s.known, s.due, s.failed = true, now.Add(doubled(p.part, s.fails, p.maxPart)), w.run.again
	default:
		*s = state{known: true}
	}
}

// doubled is the n-th pause, from 1 on: each is twice the one before, to most at most.
func doubled(minimum time.Duration, n int, maximum time.Duration) time.Duration {
	return min(minimum<<min(n-1, 20), maximum)
}

// publish publishes what is known, logs it where it has changed, and keeps it for other replicas.
func (w *watch) publish() {
	is := w.run.card(w.states)
	is.Backend, is.Life = w.backend.ID, w.backend.Life
	p := Progress{Shared: w.foreign, Open: is.Open}
	var latest *state
	for i := range w.states {
		s := &w.states[i]
		if s.known {
			p.Asked = append(p.Asked, questions[i].name)
		} else if i < foundations {
			is.At = time.Time{} // it says nothing yet
		}
		if s.open() && (p.Next.IsZero() || s.due.Before(p.Next)) {
			p.Next = s.due
		}
		if s.open() && s.fails > 0 && (latest == nil || s.due.After(latest.due)) {
			latest, p.Failed = s, questions[i].name+": "+s.failed
		}
	}
	w.capabilities.Store(is)
	w.progress.Store(&p)
	w.log(is, &p)
	w.keep(is)
}

// log logs what is known where it has changed since the last line, and that something begins to fail.
func (w *watch) log(is *Capabilities, p *Progress) {
	names, missing := make([]string, len(is.Missing)), make([]string, len(is.Missing))
	for i, m := range is.Missing {
		names[i], missing[i] = m.Name, m.Name+": "+m.Reason
	}
	said, fails := *is, p.Failed != "" // without its time, its backend and its reasons
	said.At, said.Backend, said.Life, said.Missing = time.Time{}, "", 0, nil
	about := fmt.Sprint(said, names)
	if fails {
		about = "a failure"
	}
	if about == w.logged || !fails && len(p.Open) > 0 && !p.Shared {
		return
	}
	w.logged = about
	event, text := w.prober.Logger.Info(), "engines were probed"
	if fails {
		event, text = w.prober.Logger.Warn().Str("failed", p.Failed).Dur("next_try", time.Until(p.Next)), "engines cannot be probed, or not wholly"
	}
	event.Str("pool", w.pool.Name).Str("backend", is.Backend).Str("why", w.why).Dur("took", time.Since(w.since)).
		Str("asked", strings.Join(p.Asked, ", ")).Str("open", strings.Join(p.Open, ", ")).Bool("by_another_replica", p.Shared).
		Str("tokenizer", is.Tokenizer[:min(len(is.Tokenizer), 12)]).Str("template", is.Template[:min(len(is.Template), 12)]).
		Str("scoring", string(is.Scoring)).Int("window", is.Window).Strs("missing", missing).Msg(text)
}
