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

// watch sees to what is known of one pool's engines. All but that and what others told belongs to the goroutine of loop.
type watch struct {
	prober       *Prober
	pool         Pool
	capabilities atomic.Pointer[Capabilities]
	progress     atomic.Pointer[Progress]

	backend  Backend   // whose life the answers are of; its ID is empty before the first
	since    time.Time // when it was begun to be asked
	after    time.Time // what was told before is of another life, unless the engine's start tells that it is not
	why      string    // it is asked
	run      *probeRun
	failed   string    // why the last question brought nothing
	vain     int       // tries in a row that brought nothing
	due      time.Time // when the next question is asked
	cardAt   time.Time // when its model card was looked at
	taken    *record   // another replica's, which is what is known; nil: this replica has asked
	lastLine string    // what the last line in the log was about

	mu     sync.Mutex
	heard  heard     // from another replica
	told   string    // what others may know
	toldAt time.Time // when it was told
}

// Progress is how far the probe of a pool's engines is.
type Progress struct {
	Open   []string  // questions that were not answered yet, or will be asked again
	Failed string    // why the last of them brought nothing
	Next   time.Time // when the next of them is asked
	Shared bool      // another replica asks, and what it finds out is taken over
}

// firstLooks is how many times more often a pool is looked at before its first probe: the gateway starts with it.
const firstLooks = 20

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
	b, ok := w.whom(set, 0)
	switch {
	case !ok:
		return false
	case b.ID != w.backend.ID && !w.run.complete():
		w.begin(b, "the backend that was asked is down", now)
	}
	if w.run.complete() && now.Sub(w.cardAt) >= w.prober.pace.models && b.ID == w.backend.ID {
		if w.cardAt = now; w.hasChanged(ctx, b) {
			w.begin(b, "its model's card has changed", now)
		}
	}
	asks := w.prober.Mine(w.pool.Name, w.backend.ID)
	if w.run.known == 1 || w.taken != nil && !asks {
		w.takeOver()
	}
	leaves := w.run.known == 1 && !asks && now.Sub(w.since) < patience // the asking to another replica
	if now.Before(w.due) || leaves || w.run.complete() && (w.run.again == "" || w.taken != nil) {
		return false
	}
	w.ask(ctx, b)
	return true
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

// begin asks all questions of an engine of which nothing is known. What is known of another one of its pool holds until it has
// answered.
func (w *watch) begin(b Backend, why string, now time.Time) {
	w.after = now.Add(-patience)
	if w.backend.ID == b.ID {
		w.after = now
	}
	if w.backend.ID == b.ID || !b.like(w.backend) {
		w.capabilities.Store(nil)
	}
	w.backend, w.why, w.since, w.taken = b, why, now, nil
	w.failed, w.vain, w.due, w.run = "", 0, now, newRun(w.asker(b))
	w.publish()
}

// whom returns the first backend of the probed one's kind that is up: itself, or those behind it in turn, but for some.
func (w *watch) whom(set []Backend, skipped int) (b Backend, ok bool) {
	at := max(find(set, w.backend.ID), 0)
	var up []Backend
	for i := range set {
		if b := set[(at+i)%len(set)]; b.Up && b.like(w.backend) {
			up = append(up, b)
		}
	}
	if len(up) == 0 || w.backend.ID == "" {
		return b, false
	}
	return up[skipped%len(up)], true
}

// hasChanged reports whether the engine tells something else of its model than when it was probed. No answer is none.
func (w *watch) hasChanged(ctx context.Context, b Backend) bool {
	ctx, cancel := context.WithTimeout(ctx, maxCardTime)
	defer cancel()
	e := newRun(w.asker(b))
	return e.window(ctx) == nil && e.card != w.run.card
}

// maxCardTime bounds a look at the model's card.
const maxCardTime = 2 * time.Second

func (w *watch) asker(b Backend) *asker {
	return &asker{
		upstream: w.prober.Upstream, timeout: w.prober.pace.silence, url: b.URL, model: w.pool.Model, engine: b.Engine,
		priority: w.pool.Priority, credentials: w.pool.Credentials(),
	}
}

// ask asks b the next question, or the last one again, and publishes what that brings.
func (w *watch) ask(ctx context.Context, b Backend) {
	unpinned := w.run.unpinned && w.run.url == b.URL
	w.run.asker = w.asker(b) // with the credentials that hold now
	w.run.unpinned = unpinned
	w.run.mayScore = func(tokens int) (func(error), error) { return w.pool.MayScore(b.ID, tokens) }
	w.run.known = min(w.run.known, len(questions)-1)
	err := w.run.next(ctx)
	if ctx.Err() != nil {
		return // we are ending, which says nothing of the engine
	}
	w.pool.Ended(b.ID, err)
	now := time.Now()
	if err == nil && w.run.again == "" {
		w.failed, w.vain, w.run.found.At, w.cardAt = "", 0, now, now
		w.publish()
		return
	}
	vain, why := w.vain+1, w.run.again
	failed := questions[min(w.run.known, len(questions)-1)].name + ": "
	if err != nil {
		why = reason(err)
		if other, ok := w.whom(w.pool.Backends(), 1); ok && other.ID != b.ID {
			w.begin(other, "another backend gave no answer", now)
		}
	}
	w.failed, w.vain, w.due = failed+why, vain, now.Add(min(w.prober.pace.minRetry<<min(vain-1, 20), w.prober.pace.maxRetry))
	w.publish()
}

// publish publishes what is known, logs it where it has changed, and keeps it for other replicas.
func (w *watch) publish() {
	p := Progress{Shared: w.taken != nil, Failed: w.failed, Next: w.due}
	for i, q := range questions {
		if i >= w.run.known || w.run.again != "" && i == len(questions)-1 {
			p.Open = append(p.Open, q.name)
		}
	}
	w.progress.Store(&p)
	if !w.run.complete() {
		w.log(nil, &p)
		return
	}
	is := w.run.capabilities()
	is.Backend, is.Life = w.backend.ID, w.backend.Life
	w.capabilities.Store(is)
	w.log(is, &p)
	text := ""
	if w.taken == nil || w.prober.Mine(w.pool.Name, w.backend.ID) {
		text = record{w.run.card, *is}.encode()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != w.told {
		w.told, w.toldAt = text, time.Time{}
	}
}

// log logs what was found out where it has changed since the last line, and that something begins to fail.
func (w *watch) log(is *Capabilities, p *Progress) {
	event, text, about := w.prober.Logger.Info(), "engines were probed", "a failure"
	switch {
	case p.Failed != "":
		event, text = w.prober.Logger.Warn().Str("failed", p.Failed).Dur("next_try", time.Until(p.Next)), "engines cannot be probed, or not wholly"
	case is == nil:
		return
	default:
		said := *is // without its time and its backend
		said.At, said.Backend, said.Life = time.Time{}, "", 0
		about = fmt.Sprint(said)
	}
	if about == w.lastLine {
		return
	}
	w.lastLine = about
	event.Str("pool", w.pool.Name).Str("backend", w.backend.ID).Str("why", w.why).Dur("took", time.Since(w.since)).
		Str("open", strings.Join(p.Open, ", ")).Bool("by_another_replica", p.Shared)
	if is != nil {
		event.Str("tokenizer", is.Tokenizer[:min(len(is.Tokenizer), 12)]).Str("template", is.Template[:min(len(is.Template), 12)]).
			Str("scoring", string(is.Scoring)).Int("window", is.Window).Any("missing", is.Missing)
	}
	event.Msg(text)
}
