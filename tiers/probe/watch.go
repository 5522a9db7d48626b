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

// watch sees to one pool's card. All but the card and what others told belongs to the goroutine of loop.
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
	states   []state   // of the questions
	asked    int       // questions of this round that had their turn
	vain     int       // rounds in a row after which a question was open
	due      time.Time // when the next round begins
	modelsAt time.Time
	taken    *record // another replica's, which is what is known; nil: this replica asks
	logged   string  // what the last line in the log was about

	mu    sync.Mutex
	heard heard     // from another replica
	told  string    // what others may know
	last  time.Time // when it was told
}

// state is how far a question is.
type state struct {
	known bool   // it was answered in this life
	tried bool   // and in vain: open says why
	open  string // why it is asked; "": it is not
}

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
	b, ok := w.whom(set, 0)
	if !ok {
		return false
	}
	i := w.question(now)
	if i > 0 {
		b, _ = w.whom(set, w.vain)
	}
	if i >= 0 {
		w.ask(ctx, b, i)
	}
	return i >= 0
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
	w.backend, w.why, w.since, w.taken = b, why, now, nil
	w.asked, w.vain, w.due = 0, 0, now
	if run := newRun(w.asker(b)); !gone {
		w.run, w.states = run, make([]state, len(questions))
	} else {
		w.run.asker = run.asker
	}
	for i := range w.states {
		w.states[i].open, w.states[i].tried = why, false
	}
	w.publish()
}

// question returns which question is asked now, or −1. In a round each that is open has its turn, in their order, but for those
// behind a foundation that is not known. After it comes a pause that doubles.
func (w *watch) question(now time.Time) int {
	if now.Before(w.due) {
		return -1
	}
	open := func(s state) bool { return s.open != "" }
	if w.asked > foundations || w.asked == 0 || w.states[w.asked-1].known {
		if i := slices.IndexFunc(w.states[w.asked:], open); i >= 0 {
			w.asked += i + 1
			return w.asked - 1
		}
	}
	if w.asked = 0; slices.ContainsFunc(w.states, open) {
		w.vain++
		w.due = now.Add(doubled(w.prober.pace.minRetry, w.vain, w.prober.pace.maxRetry))
	}
	return -1
}

// whom returns the backend to ask, after so many rounds in vain: the one that is probed, then others of its kind in turn.
func (w *watch) whom(set []Backend, vain int) (b Backend, ok bool) {
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
	return up[vain%len(up)], true
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
	unpinned := w.run.unpinned && w.run.url == b.URL
	w.run.asker = w.asker(b) // with the credentials that hold now
	w.run.unpinned = unpinned
	w.run.mayScore = func(tokens int) (func(error), error) { return w.pool.MayScore(b.ID, tokens) }
	err := w.run.try(ctx, &questions[i])
	if ctx.Err() != nil {
		return // we are ending, which says nothing of the engine
	}
	w.pool.Ended(b.ID, err)
	now := time.Now()
	switch s := &w.states[i]; {
	case err != nil:
		s.tried, s.open = true, reason(err)
	case w.run.again != "":
		*s = state{known: true, tried: true, open: w.run.again}
	default:
		*s = state{known: true}
	}
	if other, ok := w.whom(w.pool.Backends(), 1); i == 0 && err != nil && ok {
		w.backend = other // it is not even said which model that serves
	}
	if err == nil {
		w.run.found.At = now
		if i == 0 {
			w.modelsAt = now
			w.recall()
		}
	}
	w.publish()
}

// doubled is the n-th pause, from 1 on: each is twice the one before, to most at most.
func doubled(minimum time.Duration, n int, maximum time.Duration) time.Duration {
	return min(minimum<<min(n-1, 20), maximum)
}

// publish publishes what is known, logs it where it has changed, and keeps it for other replicas.
func (w *watch) publish() {
	is := w.run.card(w.states)
	is.Backend, is.Life = w.backend.ID, w.backend.Life
	p := Progress{Shared: w.taken != nil, Open: is.Open}
	if len(p.Open) > 0 {
		p.Next = w.due
	}
	for i, s := range w.states {
		if s.known {
			p.Asked = append(p.Asked, questions[i].name)
		} else if i < foundations {
			is.At = time.Time{} // it says nothing yet
		}
		if s.tried {
			p.Failed = questions[i].name + ": " + s.open
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
