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

	mu          sync.Mutex
	sched       *Scheduler
	vend        time.Duration // when the last step ended
	lag         time.Duration
	ended       bool // everything ends with finish_reason abort, as after SIGTERM
	jobs        map[*Seq]*job
	totals      totals
	met         *metrics
	levelsStale bool // sequences left without a step: levels must be shown anew
}

// totals are what State counts beside the scheduler.
type totals struct{ aborted, finished int }

// job is one sequence with the request that waits for it.
type job struct {
	seq *Seq
	gen *generator
	box *mailbox
}

const (
	// early is how long before its end a step's result may be delivered, in real time: below it a timer costs more
	// than it is precise, so several steps run per wake-up.
	early = 500 * time.Microsecond
	slack = 20 * time.Millisecond
)

func newEngine(s *Scheduler, scale float64, met *metrics) *engine {
	return &engine{scale: scale, epoch: time.Now(), wake: make(chan struct{}, 1),
		sched: s, jobs: map[*Seq]*job{}, met: met}
}

// now is the scaled clock.
func (e *engine) now() time.Duration { return time.Duration(float64(time.Since(e.epoch)) * e.scale) }

// seconds is a stretch of the engine's time as the wall's; an engine behind its clock may have started before the arrival.
func (e *engine) seconds(d time.Duration) float64 { return max(0, e.real(d).Seconds()) }

// real converts the engine's time to the wall's.
func (e *engine) real(d time.Duration) time.Duration { return time.Duration(float64(d) / e.scale) }

// add queues jobs. An engine that has stopped ends them at once with finish_reason abort, as vLLM does after SIGTERM.
func (e *engine) add(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		for _, j := range jobs {
			j.box.push(lastEvent(j))
		}
		return
	}
	now := e.now()
	for _, j := range jobs {
		e.jobs[j.seq] = j
		e.sched.Add(j.seq, now)
	}
	signal(e.wake)
}

// lastEvent ends a choice without a token.
func lastEvent(j *job) event { return event{choice: j.gen.choice, id: -1, finish: finishAbort} }

// end ends every request that is still there, and from now on every one that comes.
func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for q, j := range e.jobs {
		e.sched.Abort(q)
		e.totals.aborted++
		j.box.push(lastEvent(j))
	}
	clear(e.jobs)
	e.met.levels(e.sched.Counts())
}

// abort takes jobs out, wherever they are: their blocks are free before the next step.
func (e *engine) abort(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		delete(e.jobs, j.seq)
		if e.sched.Abort(j.seq) {
			e.totals.aborted++
			e.levelsStale = true
		}
	}
	signal(e.wake)
}

// signal tells whoever waits on c, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// slow makes every step from the next one on take so many times longer.
func (e *engine) slow(factor float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.SetSlow(factor)
}

// run steps until ctx ends, which ends every request that is still there.
func (e *engine) run(ctx context.Context) {
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
				continue
			case <-timer.C:
			}
		}
		e.commit(b)
	}
	e.end()
}

// begin starts the next step, if there is anything to do.
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
	if b == nil && e.levelsStale {
		e.levelsStale = false
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
	e.levelsStale = false
	e.met.levels(e.sched.Counts())
}

// deliver hands one token to its request.
func (e *engine) deliver(it *Item) {
	j := e.jobs[it.Seq]
	if j == nil {
		return
	}
	ev := j.gen.last
	if it.First {
		ev.cached = it.Seq.Cached
	}
	e.met.token(it, e)
	if it.Finished {
		e.totals.finished++
		delete(e.jobs, j.seq)
	}
	j.box.push(ev)
}

// mailbox collects the outputs of one request until its handler takes them.
type mailbox struct {
	mu     sync.Mutex
	events []event
	notify chan struct{}
}

func newMailbox() *mailbox { return &mailbox{notify: make(chan struct{}, 1)} }

func (m *mailbox) push(ev event) {
	m.mu.Lock()
	m.events = append(m.events, ev)
	m.mu.Unlock()
	select {
	case m.notify <- struct{}{}:
	default:
	}
}

// take swaps the collected events, if any, for spare, which the caller is done with.
func (m *mailbox) take(spare []event) []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.events) == 0 {
		return nil
	}
	got := m.events
	m.events = spare[:0]
	return got
}
