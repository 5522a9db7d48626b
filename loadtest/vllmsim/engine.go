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
	other chan struct{} // the step under way ends at another time than it did

	stop chan struct{} // closed by kill

	mu          sync.Mutex
	sched       *Scheduler
	step        *Batch        // under way
	vend        time.Duration // when the last step ended
	lag         time.Duration
	closed      string // the finish reason that everything ends with: abort after SIGTERM, dead after a death; "" while it runs
	killed      bool
	jobs        map[*Seq]*job
	totals      totals
	met         *metrics
	levelsStale bool          // sequences left without a step: levels must be shown anew
	hung        bool          // by a fault: the step under way does not end
	since       time.Duration // it has been, on the engine's clock
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
	return &engine{scale: scale, epoch: time.Now(), wake: make(chan struct{}, 1), other: make(chan struct{}, 1), stop: make(chan struct{}),
		sched: s, jobs: map[*Seq]*job{}, met: met}
}

// now is the scaled clock.
func (e *engine) now() time.Duration { return time.Duration(float64(time.Since(e.epoch)) * e.scale) }

// seconds is a stretch of the engine's time as the wall's; an engine behind its clock may have started before the arrival.
func (e *engine) seconds(d time.Duration) float64 { return max(0, e.real(d).Seconds()) }

// real converts the engine's time to the wall's.
func (e *engine) real(d time.Duration) time.Duration { return time.Duration(float64(d) / e.scale) }

// add queues jobs. An engine that has stopped ends them at once: with finish_reason abort, as vLLM does after SIGTERM, or as
// its death ends them.
func (e *engine) add(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != "" {
		for _, j := range jobs {
			j.box.push(lastEvent(j, e.closed))
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

// preflight refuses a request before anything is done for it, when the engine is dead.
func (e *engine) preflight() *apiError {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != finishDead {
		return nil
	}
	return errDead
}

// lastEvent ends a choice without a token.
func lastEvent(j *job, finish string) event {
	return event{choice: j.gen.choice, id: -1, finish: finish}
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

// ail makes every step from the next one on as slow as a fault says. With its hang "process" the step under way, and any
// that comes after it, does not end; without, it goes on where it stood.
func (e *engine) ail(f *Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.SetSlow(max(f.Slow, 0))
	on := f.Hang == hangProcess
	if on == e.hung {
		return
	}
	now := e.now()
	if on {
		e.since = now
	} else if e.step != nil {
		e.step.End += now - max(e.since, min(e.step.Start, now))
	}
	e.hung = on
	signal(e.other)
}

// run steps until ctx ends or the engine dies; either ends every request that is still there.
func (e *engine) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		b, dead := e.begin()
		if dead {
			e.end(finishDead)
			return
		}
		if b == nil {
			select {
			case <-ctx.Done():
			case <-e.stop:
			case <-e.wake:
			}
			continue
		}
		if e.await(ctx, b, timer) {
			e.commit(b)
		}
	}
	e.end(finishAbort)
}

// await waits until a step ends; it reports false when the engine ends before it.
func (e *engine) await(ctx context.Context, b *Batch, timer *time.Timer) bool {
	for {
		wait, hung := e.stepRemaining(b)
		if hung {
			wait = time.Hour // or until the fault ends
		}
		if wait <= early {
			return true
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return false
		case <-e.stop:
			return false
		case <-e.other:
		case <-timer.C:
		}
	}
}

// stepRemaining is how long a step has still to go, on the wall's clock; hung says that it does not end.
func (e *engine) stepRemaining(b *Batch) (wait time.Duration, hung bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.real(b.End - e.now()), e.hung
}

// begin starts the next step, if there is anything to do; dead reports that there will be none any more.
func (e *engine) begin() (b *Batch, dead bool) {
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
	if e.killed {
		return nil, true
	}
	b = e.sched.Step(start)
	e.step = b
	if b == nil && e.levelsStale {
		e.levelsStale = false
		e.met.levels(e.sched.Counts())
	}
	return b, e.sched.Dead()
}

func (e *engine) commit(b *Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.step = nil
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
		e.met.done(j.seq, ev.finish, e)
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
