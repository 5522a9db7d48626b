package vllmsim

import (
	"context"
	"sync"
	"time"
)

// engine drives a scheduler in real time, or in time that runs scale times faster.
//
// Its clock runs in the profile's time. A step starts where the last one ended, so sleeping too long is made up for by
// the steps after it, up to slack; beyond that the clock slips, and a machine that is too slow for its time scale shows
// as lag in [State].
type engine struct {
	scale float64
	epoch time.Time
	wake  chan struct{}

	mu     sync.Mutex
	sched  *Scheduler
	vend   time.Duration // when the last step ended
	lag    time.Duration
	closed bool
	jobs   map[*Seq]*job
	totals totals
	met    *metrics
	gone   bool // sequences left without a step: levels must be shown anew
}

// totals are what State counts beside the scheduler.
type totals struct{ aborted, finished, generated int }

// job is one sequence with the request that waits for it.
type job struct {
	seq *Seq
	gen *generator
	box *mailbox
	n   int // choices per prompt that the request asks for
}

const (
	// early is how long before its end a step's result may be delivered, in real time: below it a timer costs more
	// than it is precise, so several steps run per wake-up.
	early = 500 * time.Microsecond
	slack = 20 * time.Millisecond
)

func newEngine(s *Scheduler, scale float64, met *metrics) *engine {
	return &engine{scale: scale, epoch: time.Now(), wake: make(chan struct{}, 1), sched: s,
		jobs: map[*Seq]*job{}, met: met}
}

// now is the scaled clock.
func (e *engine) now() time.Duration { return time.Duration(float64(time.Since(e.epoch)) * e.scale) }

// seconds is a stretch of the engine's time as the wall's; an engine behind its clock may have started before the arrival.
func (e *engine) seconds(d time.Duration) float64 { return max(0, e.real(d).Seconds()) }

// real converts the engine's time to the wall's.
func (e *engine) real(d time.Duration) time.Duration { return time.Duration(float64(d) / e.scale) }

// submit queues jobs together. A stopped engine ends them at once with finish_reason abort, as vLLM does after SIGTERM.
func (e *engine) submit(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for _, j := range jobs {
		if e.closed {
			j.box.push(abortEvent(j))
			continue
		}
		e.jobs[j.seq] = j
		e.sched.Add(j.seq, now)
	}
	e.signal()
}

// abortEvent ends a choice without a token.
func abortEvent(j *job) event { return event{choice: j.gen.choice, id: -1, finish: finishAbort} }

// abort takes jobs out, wherever they are: their blocks are free before the next step.
func (e *engine) abort(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		delete(e.jobs, j.seq)
		if e.sched.Abort(j.seq) {
			e.totals.aborted++
			e.gone = true
		}
	}
	e.signal()
}

func (e *engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// setSlow stretches every step.
func (e *engine) setSlow(factor float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.slow = 1
	if factor > 0 {
		e.sched.slow = factor
	}
}

// run steps until ctx ends; then every request that is still there ends with finish_reason abort, as after SIGTERM.
func (e *engine) run(ctx context.Context) {
	defer e.shut()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		b := e.begin()
		if b == nil {
			select {
			case <-ctx.Done():
			case <-e.wake:
			}
			continue
		}
		if wait := e.real(b.End - e.now()); wait > early {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		e.commit(b)
	}
}

func (e *engine) begin() *Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	start := e.vend
	if oldest := now - time.Duration(float64(slack)*e.scale); start < oldest {
		if len(e.sched.running) > 0 {
			e.lag += oldest - start
		}
		start = oldest
	}
	if len(e.sched.running) == 0 {
		start = max(e.vend, now) // idle until now
	}
	b := e.sched.Step(start)
	if b == nil && e.gone {
		e.gone = false
		e.met.levels(e.sched.Counts())
	}
	return b
}

func (e *engine) commit(b *Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.Commit(b)
	e.vend = b.End
	e.met.step(b)
	for i := range b.Items {
		it := &b.Items[i]
		if it.Emits {
			e.deliver(it)
		}
	}
	e.gone = false
	e.met.levels(e.sched.Counts())
}

// deliver hands one token to its request.
func (e *engine) deliver(it *Item) {
	j := e.jobs[it.Seq]
	if j == nil {
		return
	}
	e.totals.generated++
	ev := j.gen.last
	if it.First {
		ev.cached = it.Seq.Cached
	}
	e.met.token(it, e)
	if it.Finished {
		e.totals.finished++
		delete(e.jobs, it.Seq)
		e.met.done(j, ev.finish, e)
	}
	j.box.push(ev)
}

func (e *engine) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for q, j := range e.jobs {
		e.sched.Abort(q)
		e.totals.aborted++
		e.met.success[finishAbort].Inc()
		j.box.push(abortEvent(j))
	}
	clear(e.jobs)
	e.met.levels(e.sched.Counts())
}

// mailbox collects the outputs of one request until its handler takes them.
type mailbox struct {
	mu     sync.Mutex
	events []event
	notify chan struct{}
}

func newMailbox() *mailbox { return &mailbox{notify: make(chan struct{}, 1)} }

func (b *mailbox) push(ev event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	b.mu.Unlock()
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// take swaps the collected events, if any, for spare, which the caller is done with.
func (b *mailbox) take(spare []event) []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return nil
	}
	got := b.events
	b.events = spare[:0]
	return got
}
