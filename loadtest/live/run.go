package live

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest"
)

const (
	// ahead is how long before its time (the wall's) a conversation is made, so
	// that making it does not make it late.
	ahead = 50 * time.Millisecond

	// maxUnchecked bounds the answers that wait to be checked.
	maxUnchecked = 4096

	tellEvery = 10 * time.Second

	// tooLate is a delay of the sender, on average and of the wall's time, that a
	// reader must know of.
	tooLate = 5 * time.Millisecond
)

// run is one run of a case, from the first request to the last answer.
type run struct {
	opts     *Options
	scenario *loadtest.Scenario
	sys      *system
	work     *loadtest.Workload
	client   *client
	recorder *loadtest.Recorder
	gauge    *gauge
	unsure   chan answered // to be checked

	talks                                   sync.WaitGroup // conversations and users
	sent, answered, shed, failed, unchecked atomic.Int64
	full                                    atomic.Int64 // not sent: the client was full
	last                                    atomic.Int64 // when the last answer ended
	late, latest                            atomic.Int64 // how much later than due requests were sent: all together, the worst
}

// answered is an answer that may be checked.
type answered struct {
	request *loadtest.Request
	text    string
	out     loadtest.Outcome
}

func newRun(o *Options, sys *system, work *loadtest.Workload, c *client) *run {
	return &run{
		opts: o, scenario: o.Scenario, sys: sys, work: work, client: c,
		recorder: loadtest.NewRecorder(o.Scenario.Warmup), unsure: make(chan answered, maxUnchecked),
	}
}

// play sends the load, and sums up.
func (r *run) play(ctx context.Context) *loadtest.Result {
	r.gauge = &gauge{sys: r.sys, clock: r.client.clock, warmup: r.scenario.Warmup}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	var side, checks sync.WaitGroup
	defer side.Wait()
	defer stop() // before the wait, also on a panic
	side.Go(func() { r.gauge.watch(beside) })
	side.Go(func() { r.tell(beside) })
	checks.Go(func() { r.checkAll(ctx) })
	if r.work.Closed() {
		r.closed(ctx)
	} else {
		r.open(ctx)
	}
	r.talks.Wait()
	after := r.gauge.states()
	close(r.unsure)
	checks.Wait()
	stop()
	side.Wait()
	return &loadtest.Result{
		Case: r.opts.Case.Name, Window: max(0, time.Duration(r.last.Load())-r.scenario.Warmup),
		Recorder: r.recorder, Pools: r.gauge.usage(after), PeakKV: r.gauge.peak, Totals: r.scenario.Totals,
	}
}

// open begins conversations when the workload says, whatever is outstanding.
func (r *run) open(ctx context.Context) {
	lead := r.client.clock.of(ahead)
	for i := 0; ; i++ {
		at, ok := r.work.Start(i)
		if !ok || !r.client.clock.until(ctx, at-lead) {
			return
		}
		if r.work.Silent(i) {
			continue
		}
		r.talks.Go(func() { r.converse(ctx, r.work.Session(i), at) })
	}
}

// closed lets every user go through conversations until the scenario's time is
// over.
func (r *run) closed(ctx context.Context) {
	for u := range r.work.Users() {
		r.talks.Go(func() {
			at := r.work.FirstThink(u)
			for k := 0; at < r.scenario.Duration && ctx.Err() == nil; k++ {
				s := r.work.Session(k*r.work.Users() + u)
				at = r.converse(ctx, s, at) + s.Think()
			}
		})
	}
}

// converse sends a conversation's requests, each a pause after the answer to the
// one before, and returns when it was over. Nobody goes on talking to an error.
func (r *run) converse(ctx context.Context, s *loadtest.Session, at time.Duration) time.Duration {
	for {
		q := s.Request()
		asked := r.client.body(q)
		if !r.client.clock.until(ctx, at) {
			return at
		}
		out := loadtest.Outcome{Session: q.Session, Turn: q.Turn, Tenant: q.Tenant, Priority: q.Priority, At: at}
		r.sent.Add(1)
		late := int64(r.client.clock.now() - at)
		r.late.Add(late)
		raise(&r.latest, late)
		text := r.client.send(ctx, q, asked, &out)
		if ctx.Err() != nil {
			return at // nobody wants the result any more
		}
		r.settle(q, text, out)
		if text == "" {
			return out.Done
		}
		think, more := s.Answered(text)
		at = out.Done + think
		if !more {
			return out.Done
		}
	}
}

// raise makes v at least x.
func raise(v *atomic.Int64, x int64) {
	for old := v.Load(); old < x && !v.CompareAndSwap(old, x); old = v.Load() {
	}
}

// settle counts what came of a request. It never waits.
func (r *run) settle(q *loadtest.Request, text string, out loadtest.Outcome) {
	switch out.End {
	case loadtest.Answered:
		r.answered.Add(1)
		raise(&r.last, int64(out.Done))
	case loadtest.Shed:
		r.shed.Add(1)
	default:
		r.failed.Add(1)
		if out.Detail == clientFull {
			r.full.Add(1)
		}
	}
	if r.opts.Check == nil || out.End != loadtest.Answered || out.At < r.scenario.Warmup {
		r.recorder.Add(out)
		return
	}
	select {
	case r.unsure <- answered{q, text, out}:
	default:
		r.unchecked.Add(1)
		r.recorder.Add(out)
	}
}

// checkAll checks answers until there will be no more, or the run is given up.
func (r *run) checkAll(ctx context.Context) {
	for a := range r.unsure {
		if ctx.Err() == nil {
			r.opts.Check(a.request, a.text, &a.out)
		}
		r.recorder.Add(a.out)
	}
}

// tell says how far the run is, until ctx ends.
func (r *run) tell(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for r.opts.Say != nil {
		select {
		case <-tick.C:
			r.opts.Say("%s: %v of %v; %d sent, %d under way, %d answered, %d shed, %d failed; %v behind\n", r.opts.Case.Name, r.client.clock.now().Truncate(time.Second),
				r.scenario.Duration, r.sent.Load(), r.client.inFlight.Load(), r.answered.Load(), r.shed.Load(), r.failed.Load(), r.gauge.lag().Truncate(time.Millisecond))
		case <-ctx.Done():
			return
		}
	}
}

// notes tells what the run cannot show in numbers.
func (r *run) notes() {
	if r.opts.Note == nil {
		return
	}
	name := r.opts.Case.Name
	if lag, took := r.gauge.lag(), time.Since(r.client.clock.start); lag > took/50 {
		r.opts.Note(fmt.Sprintf("%s: this machine was too slow for time scale %g: a simulator stood still for %v of %v; latencies are too long",
			name, r.scenario.TimeScale, lag.Round(time.Millisecond), took.Round(time.Millisecond)))
	}
	if mean := r.late.Load() / max(1, r.sent.Load()); mean > int64(r.client.clock.of(tooLate)) {
		r.opts.Note(fmt.Sprintf("%s: requests were sent %v later than they were due, %v at most; that is in the latencies",
			name, time.Duration(mean).Round(time.Millisecond), time.Duration(r.latest.Load()).Round(time.Millisecond)))
	}
	if n := r.unchecked.Load(); n > 0 {
		r.opts.Note(fmt.Sprintf("%s: %d answers came too fast to be checked", name, n))
	}
	if n := r.full.Load(); n > 0 {
		r.opts.Note(fmt.Sprintf("%s: %d requests failed in the client itself, which holds %d at once", name, n, maxInFlight))
	}
}
