package engines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pressure"
)

// Why there is no reading of a backend's metrics.
var (
	ErrRefused = errors.New("connection refused")
)

// Backend is one simulated vLLM: the simulator's scheduler, and the event loop that plays its steps.
type Backend struct {
	Calls  int   // that were sent to it
	Audits Spent // what audits had it compute

	fleet *Fleet
	pool  *Pool
	index int
	sched *vllmsim.Scheduler
	batch *vllmsim.Batch // the step under way; nil is idle
	alive bool
	life  int // counts deaths: events of an earlier life do nothing
	jobs  map[*attempt]struct{}

	shown vllmsim.Counts // as /metrics shows them: those of the last step
	past  history        // of earlier lives
	spent Spent

	marked                    history // at the warm-up's end
	spentBefore, auditsBefore Spent
}

func newBackend(f *Fleet, p *Pool, index int) *Backend {
	b := &Backend{fleet: f, pool: p, index: index, alive: true, jobs: map[*attempt]struct{}{}}
	b.fresh()
	return b
}

// URL is its base URL.
func (b *Backend) URL() string { return fmt.Sprintf("http://%s-%d:8000", b.pool.Name, b.index) }

// Counts are its scheduler's, as they are now.
func (b *Backend) Counts() vllmsim.Counts { return b.sched.Counts() }

// fresh starts an engine with an empty cache.
func (b *Backend) fresh() {
	b.sched = vllmsim.NewScheduler(b.pool.Profile, vllmsim.SchedulerOptions{
		Priority: b.pool.Def.Policy == "priority", OOM: b.pool.Def.OOM,
	})
	b.shown = b.sched.Counts()
}

// submit queues an attempt, as it arrives. What cannot be taken ends at once.
func (b *Backend) submit(a *attempt) {
	switch {
	case !b.alive:
		a.fail(&engine.Failure{Kind: engine.Refused, Err: ErrRefused})
		return
	case a.aside():
		a.made, a.done = 1, true
		a.wake()
		return
	}
	b.jobs[a] = struct{}{}
	b.sched.Add(&a.seq, b.fleet.Loop.Elapsed())
	b.turn()
}

// Probe is what a request for one token finds out, in the time of two hops.
func (b *Backend) Probe(ctx context.Context) error {
	if err := b.fleet.Loop.Sleep(ctx, 2*Hop); err != nil || b.alive {
		return err
	}
	return &engine.Failure{Kind: engine.Refused, Err: ErrRefused}
}

// abort takes an attempt out, wherever it is.
func (b *Backend) abort(a *attempt) {
	if _, there := b.jobs[a]; !there {
		return
	}
	delete(b.jobs, a)
	b.sched.Abort(&a.seq)
	if b.batch == nil {
		b.shown = b.sched.Counts() // an empty step publishes the levels anew
	}
}

// turn begins the next step, unless one is under way or there is nothing to do.
func (b *Backend) turn() {
	if b.batch != nil || !b.alive {
		return
	}
	b.batch = b.sched.Step(b.fleet.Loop.Elapsed())
	if b.sched.Dead() {
		b.past.ooms++
		b.die(b.pool.Def.Restart)
		return
	}
	if b.batch == nil {
		return
	}
	b.spent.count(b.batch)
	life := b.life
	b.fleet.Loop.At(b.batch.End, func() {
		if life == b.life {
			b.commit()
		}
	})
}

// commit ends the step and hands its tokens out.
func (b *Backend) commit() {
	batch := b.batch
	b.sched.Commit(batch)
	for i := range batch.Items {
		it := &batch.Items[i]
		if !it.Emits {
			continue
		}
		a := it.Seq.Source.(source).attempt // submit adds no other
		if _, there := b.jobs[a]; !there {
			continue
		}
		if it.Finished {
			delete(b.jobs, a)
		}
		a.token(it.Token, it.Finished)
	}
	b.batch = nil
	b.shown = b.sched.Counts()
	b.turn()
}

// engineDied is what vLLM says to who has a request in an engine that dies.
var engineDied = openai.Fault{
	Status: http.StatusInternalServerError, Message: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
}

// die ends the engine and everything in it, and brings it back after a while.
func (b *Backend) die(back time.Duration) {
	if !b.alive {
		return
	}
	b.alive, b.batch = false, nil
	b.life++
	b.past.add(b.sched.Counts())
	lost := sorted(b.jobs)
	clear(b.jobs)
	b.fresh()
	for _, a := range lost {
		a.fail(&engine.Failure{Kind: engine.ServerError, Status: engineDied.Status, Fault: &engineDied})
	}
	b.fleet.Loop.After(back, func() { b.alive = true })
}

// KVUsage is the share of its KV memory that is in use.
func (b *Backend) KVUsage() float64 {
	c := b.sched.Counts()
	return float64(c.BlocksUsed) / float64(c.BlocksTotal)
}

// Reading is what a scrape of /metrics gives now.
func (b *Backend) Reading() (pressure.Reading, error) {
	if !b.alive {
		return pressure.Reading{}, ErrRefused
	}
	c := b.shown
	return pressure.Reading{
		At: b.fleet.Loop.Now(), KVUsage: float64(c.BlocksUsed) / float64(max(c.BlocksTotal, 1)), Running: c.Running, Waiting: c.Waiting, Engines: 1,
		BlockSize: vllmsim.BlockSize, Blocks: b.pool.Profile.Blocks,
		PromptTokens: float64(c.PromptTokens), GenerationTokens: float64(c.GeneratedTokens),
		PrefixQueries: float64(c.PrefixQueries), PrefixHits: float64(c.PrefixHits),
		Preemptions: float64(c.Preemptions), Iterations: float64(c.Steps),
	}, nil
}
