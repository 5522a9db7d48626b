package virtual

import (
	"errors"
	"math"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/pressure"
)

var (
	errRefused = errors.New("connection refused")
	errScrape  = errors.New("no reading")
)

// backend is one simulated vLLM: the simulator's scheduler, and a clock that
// plays its steps.
type backend struct {
	lab   *lab
	tier  *tier
	index int
	sched *vllmsim.Scheduler
	batch *vllmsim.Batch // the step under way; nil is idle
	alive bool
	life  int // counts deaths: events of an earlier life do nothing
	jobs  map[*attempt]struct{}

	shown    vllmsim.Counts // as /metrics shows them: those of the last step
	past     history        // of earlier lives
	marked   history        // at the warm-up's end
	finished int

	spent, spentBefore spent // tokens computed; at the warm-up's end

	faults []*loadtest.Fault // under way
	fault  loadtest.Fault    // all of them together
	frozen *pressure.Reading
	drawn  uint64
}

// history is what a backend has done and suffered.
type history struct {
	vllmsim.Counts     // totals; levels are not kept
	deaths, ooms   int // ooms are those of a full cache
}

func newBackend(l *lab, t *tier, index int) *backend {
	b := &backend{lab: l, tier: t, index: index, alive: true, jobs: map[*attempt]struct{}{}}
	b.fresh()
	return b
}

// fresh starts an engine with an empty cache.
func (b *backend) fresh() {
	b.sched = vllmsim.NewScheduler(b.tier.profile, vllmsim.SchedulerOptions{
		Priority: b.tier.def.Policy == "priority", OOM: b.tier.def.OOM,
	})
	b.sched.SetSlow(max(b.fault.Slow, 1))
	b.shown = b.sched.Counts()
}

// submit queues an attempt, as it arrives. What cannot be taken ends at once.
func (b *backend) submit(a *attempt) {
	switch f := &b.fault; {
	case !b.alive:
		a.fail(failure{refused: true, detail: "connect"})
		return
	case f.Status != 0 && (f.Rate == 0 || b.draw() < f.Rate):
		a.fail(failure{status: f.Status})
		return
	case f.Hang != "":
		return // until its time is over
	}
	b.jobs[a] = struct{}{}
	b.sched.Add(&a.seq, b.lab.clock.now)
	b.turn()
}

// draw is uniform in [0, 1), the same in every run.
func (b *backend) draw() float64 {
	b.drawn++
	return unit(b.lab.seed, uint64(b.index), b.drawn)
}

// abort takes an attempt out, wherever it is.
func (b *backend) abort(a *attempt) {
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
func (b *backend) turn() {
	if b.batch != nil || !b.alive {
		return
	}
	b.batch = b.sched.Step(b.lab.clock.now)
	if b.sched.Dead() {
		b.past.ooms++
		b.die(b.tier.def.Restart)
		return
	}
	if b.batch == nil {
		return
	}
	b.count(b.batch)
	life := b.life
	b.lab.clock.at(b.batch.End, func() {
		if life == b.life {
			b.commit()
		}
	})
}

// count takes down what a step computes, before its tokens are there.
func (b *backend) count(batch *vllmsim.Batch) {
	for i := range batch.Items {
		switch it := &batch.Items[i]; {
		case it.Tokens == 1 && it.Seq.Generated() > 0:
			b.spent.decoded++
		case it.Seq.NoCacheRead, it.Seq.ScoreFrom > 0:
			b.spent.scored += it.Tokens
			b.spent.prefilled += it.Tokens
		default:
			b.spent.prefilled += it.Tokens
		}
	}
}

// commit ends the step and hands its tokens out.
func (b *backend) commit() {
	batch := b.batch
	b.sched.Commit(batch)
	for i := range batch.Items {
		it := &batch.Items[i]
		if !it.Emits {
			continue
		}
		a := it.Seq.Source.(*attempt)
		if _, there := b.jobs[a]; !there {
			continue
		}
		if it.Finished {
			delete(b.jobs, a)
			b.finished++
		}
		a.token(it.Token, it.Finished)
	}
	b.batch = nil
	b.shown = b.sched.Counts()
	b.turn()
}

// die ends the engine and everything in it, and brings it back after a while.
func (b *backend) die(back time.Duration) {
	if !b.alive {
		return
	}
	b.alive, b.batch = false, nil
	b.life++
	b.past.deaths++
	b.past.add(b.sched.Counts())
	lost := sortedJobs(b.jobs)
	clear(b.jobs)
	b.fresh()
	for _, a := range lost {
		a.fail(failure{status: 500, lost: true})
	}
	b.lab.clock.after(back, func() { b.alive = true })
}

// add adds the totals of one life.
func (h *history) add(c vllmsim.Counts) {
	h.Preemptions += c.Preemptions
	h.PrefixQueries += c.PrefixQueries
	h.PrefixHits += c.PrefixHits
	h.Steps += c.Steps
	h.Busy += c.Busy
	h.PromptTokens += c.PromptTokens
	h.GeneratedTokens += c.GeneratedTokens
}

// totals are those of all lives.
func (b *backend) totals() history {
	h := b.past
	h.add(b.sched.Counts())
	return h
}

// mark begins what is measured.
func (b *backend) mark() { b.marked, b.spentBefore = b.totals(), b.spent }

func (b *backend) addUsage(u *loadtest.Usage) {
	was, is := &b.marked, b.totals()
	u.Busy += is.Busy - was.Busy
	u.PrefixQueries += is.PrefixQueries - was.PrefixQueries
	u.PrefixHits += is.PrefixHits - was.PrefixHits
	u.Preemptions += is.Preemptions - was.Preemptions
	u.Generated += is.GeneratedTokens - was.GeneratedTokens
	u.Deaths += is.deaths - was.deaths
	u.OOMDeaths += is.ooms - was.ooms
}

func (b *backend) sample() loadtest.Sample {
	c := b.sched.Counts()
	return loadtest.Sample{
		At: b.lab.clock.now, Tier: b.tier.name, Backend: b.index, KVUsage: float64(c.BlocksUsed) / float64(c.BlocksTotal),
		Running: c.Running, Waiting: c.Waiting, Alive: b.alive, Finished: b.finished,
	}
}

// reading is what a scrape of /metrics gives now.
func (b *backend) reading() (pressure.Reading, error) {
	if !b.alive {
		return pressure.Reading{}, errRefused
	}
	now := b.lab.clock.wall()
	switch b.fault.Metrics {
	case "garbage", "missing", "nan":
		return pressure.Reading{}, errScrape
	case "frozen":
		if b.frozen != nil {
			r := *b.frozen
			r.At = now
			return r, nil
		}
	}
	c := b.shown
	r := pressure.Reading{
		At: now, KVUsage: float64(c.BlocksUsed) / float64(max(c.BlocksTotal, 1)), Running: c.Running, Waiting: c.Waiting, Engines: 1,
		BlockSize: vllmsim.BlockSize, Blocks: b.tier.profile.Blocks,
		PromptTokens: float64(c.PromptTokens), GenerationTokens: float64(c.GeneratedTokens),
		PrefixQueries: float64(c.PrefixQueries), PrefixHits: float64(c.PrefixHits),
		Preemptions: float64(c.Preemptions), Iterations: float64(c.Steps), Generation: "v1",
	}
	if b.fault.KVUsage > 0 {
		r.KVUsage = math.Min(b.fault.KVUsage, 1)
	}
	if b.fault.Metrics == "frozen" {
		b.frozen = &r
	}
	return r, nil
}
