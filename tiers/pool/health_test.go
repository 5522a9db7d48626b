package pool

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// bench is a pool without a network whose clock and readings a test moves by hand.
type bench struct {
	*Pool
	t   *testing.T
	now time.Time
}

func newBench(t *testing.T, o Options) *bench {
	b := &bench{t: t, now: time.Unix(1_800_000_000, 0)}
	o.Now = func() time.Time { return b.now }
	if o.Backends == nil {
		o.Backends = []string{"http://a", "http://b", "http://c", "http://d"}
	}
	b.Pool = fixed(t, o)
	return b
}

// works is the reading of an engine that runs so many requests and has made so many steps.
func works(running int, steps float64) pressure.Reading {
	return pressure.Reading{Running: running, Iterations: steps, KVUsage: 0.2 + steps/1e6, BlockSize: 16, Blocks: 10_001, Engines: 1}
}

// tick moves the clock and gives all backends a reading: step's steps at each.
func (b *bench) tick(d time.Duration, reading func(i int) pressure.Reading) {
	b.now = b.now.Add(d)
	for i := range *b.set.Load() {
		b.give(i, reading(i))
	}
}

// run gives readings every half second for so long; those of backend 0 are from first,
// the others are well.
func (b *bench) run(d time.Duration, first func() pressure.Reading) {
	for range int(d / (500 * time.Millisecond)) {
		b.tick(500*time.Millisecond, func(i int) pressure.Reading {
			if i == 0 {
				return first()
			}
			return works(8, float64(b.now.UnixMilli()%1_000_000))
		})
	}
}

func (b *bench) first() *backend { return (*b.set.Load())[0] }

// lie gives a backend readings whose usage never changes under load.
func (b *bench) lie(i int, r pressure.Reading) {
	r.Running = max(r.Running, 8)
	for range 22 {
		b.now = b.now.Add(500 * time.Millisecond)
		r.At, r.Iterations = b.now, r.Iterations+10
		b.give(i, r)
	}
}

func (b *bench) picks(n int) (first int) {
	b.t.Helper()
	for range n {
		l := pick(b.t, b.Pool, Demand{PromptTokens: 500})
		if l.backend == b.first() {
			first++
		}
		l.Done(0)
	}
	return first
}

func TestAnEngineThatHasWorkAndMakesNoStepIsSuspectWithinTwoSeconds(t *testing.T) {
	b := newBench(t, Options{})
	steps := 1.0
	b.run(10*time.Second, func() pressure.Reading { steps++; return works(3, steps) })
	if b.Snapshot()[0].State == StateSuspect {
		t.Fatal("suspect while it works")
	}
	hung := func() pressure.Reading { return works(3, steps) }
	b.run(500*time.Millisecond, hung)
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect after half a second")
	}
	b.run(time.Second, hung)
	if s := b.Snapshot()[0]; s.State != StateSuspect || s.Why != "stands still" || b.picks(40) > 0 {
		t.Fatalf("after 1.5 s: %+v", s)
	}
	// That its work is gone does not make it well; a step does.
	b.run(5*time.Second, func() pressure.Reading { return works(0, steps) })
	if b.Snapshot()[0].State != StateSuspect {
		t.Error("well again though it made no step")
	}
	steps++
	b.run(500*time.Millisecond, func() pressure.Reading { return works(0, steps) })
	if b.Snapshot()[0].State == StateSuspect || b.picks(40) == 0 {
		t.Error("still suspect after a step")
	}
}

func TestAnIdleEngineIsNeverSuspect(t *testing.T) {
	b := newBench(t, Options{})
	b.run(time.Minute, func() pressure.Reading { return works(0, 7) })
	b.run(500*time.Millisecond, func() pressure.Reading { return works(1, 7) }) // work has just come
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect of having nothing to do")
	}
	b = newBench(t, Options{})
	b.run(time.Minute, func() pressure.Reading { return works(9, 0) })
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect without a count of steps")
	}
}

func TestOurOwnPromptsExplainALongStep(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.first().speed.Prefill = 1.0 / 500 // 2,048 tokens take four seconds
	b.run(2*time.Second, func() pressure.Reading { return works(1, 5) })
	l := pick(t, b.Pool, Demand{PromptTokens: 8000})
	b.first().health = monitor{}
	b.run(6*time.Second, func() pressure.Reading { return works(1, 5) })
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect after 6 s; 1.5 × 4.1 s are explained")
	}
	b.run(time.Second, func() pressure.Reading { return works(1, 5) })
	if b.Snapshot()[0].State != StateSuspect {
		t.Error("not suspect after 7 s")
	}
	l.Done(0)
}

func TestFrozenReadingsOfAnEngineThatAnswersAreUntrueAndItServesAtTheMean(t *testing.T) {
	b := newBench(t, Options{})
	frozen := works(50, 100)
	frozen.KVUsage, frozen.Waiting = 0.95, 30
	l := pick(t, b.Pool, Demand{PromptTokens: 10, Exclude: []string{"b", "c", "d"}})
	b.run(6*time.Second, func() pressure.Reading { l.MarkAlive(); return frozen })
	s := b.Snapshot()[0]
	if s.State == StateSuspect || !looked(b.Pool)[0].usageUnknown || s.Why != "its metrics stand still, it answers" {
		t.Fatalf("got %+v", s)
	}
	if usage := looked(b.Pool)[0].filled(); usage > 0.9 {
		t.Errorf("its usage stands at %v", usage)
	}
	l.Done(0)
	if n := b.picks(400); n < 50 || n > 150 {
		t.Errorf("%d of 400 picks, want about its share", n)
	}
	// Nothing of it moves the mean.
	if m := meanOf(*b.set.Load(), b.now); m.waiting != 0 || m.running != 8 || m.usage > 0.9 {
		t.Errorf("the mean is %+v", m)
	}
}

func TestAnotherReplicasWordThatItAnswersIsEnough(t *testing.T) {
	b := newBench(t, Options{})
	frozen := works(5, 100)
	b.run(3*time.Second, func() pressure.Reading { return frozen })
	if b.Snapshot()[0].State != StateSuspect {
		t.Fatal("not suspect")
	}
	frozen.Answers = true
	b.run(time.Second, func() pressure.Reading { return frozen })
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect though another replica has seen it answer")
	}
}

func TestAUsageThatNeverChangesUnderLoadIsALieWhateverItIs(t *testing.T) {
	for _, usage := range []float64{0, 0.3, 1} {
		b := newBench(t, Options{})
		steps := 0.0
		read := func(running int, usage func() float64) func() pressure.Reading {
			return func() pressure.Reading {
				steps += 10
				r := works(running, steps)
				r.KVUsage = usage()
				return r
			}
		}
		same := func() float64 { return usage }
		b.run(9*time.Second, read(8, same))
		if b.first().health.isUnreliable() {
			t.Errorf("usage %v: a lie after 9 s", usage)
		}
		b.run(2*time.Second, read(8, same))
		s := b.Snapshot()[0]
		if !b.first().health.isUnreliable() || s.Why != "its KV usage never changes" {
			t.Errorf("usage %v: believed after 11 s: %+v", usage, s)
		}
		if n := b.picks(400); n < 60 || n > 150 {
			t.Errorf("usage %v: %d of 400 picks, want about its share", usage, n)
		}
		b.run(500*time.Millisecond, read(8, func() float64 { return 0.55 }))
		if b.first().health.isUnreliable() {
			t.Errorf("usage %v: not believed after a change", usage)
		}
		b.run(30*time.Second, read(8, func() float64 { return 0.3 + float64(int(steps/10)%7)/100 }))
		if b.first().health.isUnreliable() {
			t.Error("a usage that varies is no lie")
		}
		b.run(9500*time.Millisecond, read(7, same))
		if b.first().health.isUnreliable() {
			t.Error("seven requests are too few to tell in so short a time")
		}
		b.run(30*time.Second, read(1, same))
		if got := b.first().health.isUnreliable(); got != (usage > 0) {
			t.Errorf("usage %v stays through hundreds of steps for one request: a lie %v", usage, got)
		}
	}
}

func TestALieThatKeepsEverybodyAwayIsFoundOut(t *testing.T) {
	b := newBench(t, Options{})
	read := func(usage float64) func() pressure.Reading {
		return func() pressure.Reading {
			r := works(0, 500) // nobody comes, and no step is made
			r.KVUsage = usage
			return r
		}
	}
	b.run(12*time.Second, read(1))
	if !b.first().health.isUnreliable() || b.picks(400) < 50 {
		t.Error("full without a request, and believed")
	}
	b.run(12*time.Second, read(0))
	if b.first().health.isUnreliable() {
		t.Error("an idle engine whose cache is empty says the truth")
	}
}

func TestCountersThatBeginAnewAreARestart(t *testing.T) {
	b := newBench(t, Options{})
	parts := prefix.Head{Tenant: "t", First: []byte("x")}.Parts(4000)
	l := pick(t, b.Pool, Demand{PromptTokens: 4000, Parts: parts, Exclude: []string{"b", "c", "d"}})
	l.Done(1)
	b.run(time.Second, func() pressure.Reading { return works(1, 500) })
	at := b.first().cache
	if at.Placed() != 4000 || b.first().health.ramp(b.now) != 1 {
		t.Fatal("nothing to lose")
	}
	b.run(500*time.Millisecond, func() pressure.Reading { return works(1, 3) })
	if at.Placed() != 0 {
		t.Error("its cache is thought to be warm after a restart")
	}
	if r := b.first().health.ramp(b.now); r != minRamp {
		t.Errorf("ramp %v", r)
	}
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect for a restart")
	}
}

func TestEnginesThatAnswerInTurnAtOneAddressRestartOnceAtMost(t *testing.T) {
	for name, counts := range map[string][]float64{"two": {5000, 4000}, "three": {900, 100, 500}} {
		n, restarts := 0, 0
		log := zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
			if message == "backend was restarted" {
				restarts++
			}
		}))
		b := newBench(t, Options{Logger: log})
		b.run(30*time.Second, func() pressure.Reading {
			n++
			return works(1, counts[n%len(counts)]+float64(n))
		})
		if c := b.first().health.condition(); restarts > 1 || c != conditionShared || b.first().health.ramp(b.now) != 1 {
			t.Errorf("%s: %d restarts in 30 s, %s, ramp %v", name, restarts, c, b.first().health.ramp(b.now))
		}
		b.run(61*time.Second, func() pressure.Reading { n++; return works(1, float64(10_000+n)) })
		b.run(500*time.Millisecond, func() pressure.Reading { return works(1, 3) })
		if c := b.first().health.condition(); c != conditionWell || b.first().health.ramp(b.now) != minRamp {
			t.Errorf("%s: a minute after only one has answered, a restart is not seen: %s", name, c)
		}
	}
}

func TestCountersOfFewerEnginesAreNoRestart(t *testing.T) {
	b := newBench(t, Options{})
	two := works(1, 500)
	two.Engines = 2
	b.run(time.Second, func() pressure.Reading { return two })
	b.run(500*time.Millisecond, func() pressure.Reading { return works(1, 250) }) // one tells no number
	if r := b.first().health.ramp(b.now); r != 1 {
		t.Errorf("ramp %v", r)
	}
}

func TestTheMeanLeavesOutWhatIsDownUntrueAndOld(t *testing.T) {
	b := newBench(t, Options{})
	usages := []float64{0.1, 0.2, 0.4, 0.9}
	b.tick(0, func(i int) pressure.Reading { return pressure.Reading{KVUsage: usages[i], Running: i} })
	set := *b.set.Load()
	if m := meanOf(set, b.now); m.usage != 0.4 || m.running != 1.5 || !m.hasReadings {
		t.Errorf("all: %+v", m)
	}
	b.lie(3, set[3].reading)
	for i := range 3 {
		b.give(i, pressure.Reading{KVUsage: usages[i], Running: i})
	}
	set[0].down = errors.New("x")
	if m := meanOf(set, b.now); m.usage < 0.3-1e-9 || m.usage > 0.3+1e-9 || m.running != 1.5 {
		t.Errorf("two of four: %+v", m)
	}
	if m := meanOf(set, b.now.Add(pressure.FreshFor+1)); m.hasReadings || m.usage != unknownUsage {
		t.Errorf("all old: %+v", m)
	}
}

func TestFailedCallsRepelAndFade(t *testing.T) {
	b := newBench(t, Options{})
	share := func() float64 {
		b.tick(0, func(i int) pressure.Reading { return works(8*min(i, 1), 1) })
		return looked(b.Pool)[0].faultShare
	}
	for i := range 10 {
		l := pick(t, b.Pool, Demand{PromptTokens: 10, Exclude: []string{"b", "c", "d"}})
		l.ReportFailed()
		l.Done(0)
		if i == 0 && share() != 0.3 {
			t.Errorf("after one: %v", share())
		}
	}
	if s := share(); s < 0.9 || s > 1 {
		t.Errorf("after ten: %v", s)
	}
	// It is idle and the others are not, and still.
	if n := b.picks(100); n > 0 {
		t.Errorf("%d of 100 picks", n)
	}
	before := share()
	b.now = b.now.Add(5 * time.Second)
	if s := share(); s > before/2.7 || s < before/2.8 {
		t.Errorf("%v after ten seconds, was %v", s, before)
	}
	b.now = b.now.Add(3 * time.Minute)
	if n := b.picks(100); n == 0 {
		t.Error("never forgiven")
	}
	l := pick(t, b.Pool, Demand{PromptTokens: 10, Exclude: []string{"b", "c", "d"}})
	l.ReportFailed()
	was := share()
	l.FirstToken()
	if s := share(); s >= was {
		t.Errorf("an answer does not count: %v, then %v", was, s)
	}
}
