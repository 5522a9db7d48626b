package breaker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/foregate/foregate/breaker/machine"
)

// configs are those that gobreaker and the lab's breakers are compared with.
func someConfig(rng *rand.Rand) machine.Config {
	return machine.Config{
		Failures: 1 + rng.IntN(12),
		Window:   time.Duration(1+rng.IntN(20))*time.Second + time.Duration(rng.IntN(3)),
		Open:     []time.Duration{1, 100 * time.Millisecond, 3 * time.Second, 10 * time.Second, time.Minute}[rng.IntN(5)],
	}
}

var outcomesOfTests = []machine.Outcome{
	machine.Success, machine.Success, machine.Success, machine.Fault, machine.Fault, machine.Unreachable,
	machine.Backpressure, machine.Neutral,
}

// TestTheLabsWindowIsAGobreaker drives both through random calls, outcomes and times: each answer,
// each transition, and when it comes, must be equal. 200,000 steps, or 40 million with BREAKER_LONG=1.
func TestTheLabsWindowIsAGobreaker(t *testing.T) {
	moves, seeds := map[string]int{}, 100
	if long {
		seeds = 20_000
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			p := newPair(t, rng)
			for step := range 2000 {
				before := p.real.Version().State()
				what := p.step(rng)
				r, l := p.real.Version(), p.lab.Version()
				if r != l {
					t.Fatalf("seed %d, step %d, %s: gobreaker is %s, the window %s", seed, step, what, r.State(), l.State())
				}
				if r.State() != before {
					moves[before.String()+" to "+r.State().String()]++
				}
			}
		})
	}
	for _, m := range []string{"closed to open", "open to half-open", "half-open to open", "half-open to closed"} {
		if moves[m] < 10*seeds {
			t.Errorf("%s: only %d times", m, moves[m])
		}
	}
}

// pair is a gobreaker with our settings, and the lab's window.
type pair struct {
	t         *testing.T
	cfg       machine.Config
	real, lab machine.Local
	calls     [][2]machine.Report // that are under way
	mood      int                 // in ten outcomes, how many are faults
}

func newPair(t *testing.T, rng *rand.Rand) *pair {
	cfg := someConfig(rng)
	return &pair{t: t, cfg: cfg, real: newLocal(cfg, 0, time.Time{}), lab: machine.NewWindow(cfg, 0, time.Now())}
}

func (p *pair) step(rng *rand.Rand) string {
	switch rng.IntN(10) {
	case 0: // the edges of buckets, of the window and of the time-out, too
		d := []time.Duration{
			1, p.cfg.Bucket(), p.cfg.Bucket() - 1, p.cfg.Window, p.cfg.Timeout(), p.cfg.Timeout() + 1,
			time.Duration(rng.Int64N(int64(p.cfg.Bucket()))), time.Duration(rng.Int64N(int64(2 * p.cfg.Window))),
			time.Duration(rng.Int64N(int64(2 * p.cfg.Timeout()))),
		}[rng.IntN(9)]
		time.Sleep(d)
		return d.String()
	case 1:
		p.mood = []int{0, 1, 3, 6, 10}[rng.IntN(5)]
	case 2, 3, 4, 5:
		theirs, ours := p.real.Allow(time.Now()), p.lab.Allow(time.Now())
		if (theirs == nil) != (ours == nil) {
			p.t.Fatalf("gobreaker refuses: %v, the window: %v", theirs == nil, ours == nil)
		}
		if theirs != nil {
			p.calls = append(p.calls, [2]machine.Report{theirs, ours})
		}
		return fmt.Sprint("a call: ", theirs != nil)
	default:
		if len(p.calls) == 0 {
			return "nothing"
		}
		i := rng.IntN(len(p.calls))
		if rng.IntN(2) == 0 {
			i = len(p.calls) - 1
		}
		o := []machine.Outcome{machine.Success, machine.Success, machine.Success, machine.Backpressure, machine.Neutral}[rng.IntN(5)]
		if rng.IntN(10) < p.mood {
			o = machine.Fault + machine.Outcome(rng.IntN(2))
		}
		for _, r := range p.calls[i] {
			r.Report(o, time.Now())
		}
		p.calls = append(p.calls[:i], p.calls[i+1:]...)
		return o.String()
	}
	return "a mood"
}

// TestTheLabsBreakersAreTheGateways drives a Set without Redis and a machine.Set through the same
// calls, outcomes, times, pools and settings: they must say the same of every backend at every step.
// 15,000 steps in short runs, 90,000 else, or three million with BREAKER_LONG=1.
func TestTheLabsBreakersAreTheGateways(t *testing.T) {
	trials, spared, mended, seeds := 0, 0, 0, 60
	switch {
	case long:
		seeds = 2000
	case testing.Short():
		seeds = 10
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwoWorlds(seed)
			for step := range 1500 {
				what := w.step(t)
				w.compare(t, fmt.Sprintf("seed %d, step %d, %s", seed, step, what))
			}
			trials, spared, mended = trials+w.trials, spared+w.spared, mended+w.mended
		})
	}
	if min(trials, spared, mended) < seeds {
		t.Errorf("%d trials, %d spared, %d closed by probes", trials, spared, mended)
	}
}

// twoWorlds are a gateway's breakers and the lab's.
type twoWorlds struct {
	rng       *rand.Rand
	cfg       machine.Config
	real      *Set
	lab       *machine.Set
	calls     []permits
	mood      int
	trials    int
	spared    int
	mended    int
	prober    bool // both have one
	probes    map[machine.Key]int
	pool, all []string
}

type permits struct {
	real *Permit
	lab  *machine.Permit
}

func newTwoWorlds(seed uint64) *twoWorlds {
	rng := rand.New(rand.NewPCG(seed, 4))
	w := &twoWorlds{rng: rng, cfg: someConfig(rng), all: []string{"a", "b", "c", "d", "e"}}
	w.real = New(Options{Config: func() machine.Config { return w.cfg }, Classify: func(err error) machine.Outcome {
		o, _ := errors.AsType[outcomeError](err)
		return machine.Outcome(o)
	}})
	w.prober, w.probes = seed%2 == 1, map[machine.Key]int{}
	w.real.rules.Draw = rand.New(rand.NewPCG(seed, 5)).Float64
	time.Sleep(time.Nanosecond) // the gateway's times count from New, and 0 is none
	w.lab = machine.NewSet(machine.SetOptions{Config: func() machine.Config { return w.cfg }, Draw: rand.New(rand.NewPCG(seed, 5)).Float64})
	return w
}

// outcomeError is an outcome as an error.
type outcomeError machine.Outcome

func (e outcomeError) Error() string { return machine.Outcome(e).String() }

func (w *twoWorlds) step(t *testing.T) string {
	rng := w.rng
	switch rng.IntN(40) {
	case 0, 1, 2:
		d := []time.Duration{
			time.Duration(rng.Int64N(int64(3 * time.Second))), time.Duration(rng.Int64N(int64(2 * w.cfg.Window))),
			time.Duration(rng.Int64N(int64(2 * w.cfg.Open))), machine.MaxTrial, 12 * w.cfg.Open / 10,
		}[rng.IntN(5)]
		time.Sleep(d)
		return d.String()
	case 3:
		w.mood = rng.IntN(11)
	case 4:
		if rng.IntN(8) == 0 {
			w.cfg = someConfig(rng)
		}
	case 5:
		if rng.IntN(4) == 0 {
			w.pool = w.all[:1+rng.IntN(5)]
			w.real.Retain("big", w.pool)
			w.lab.Retain("big", w.pool, time.Now())
			return fmt.Sprint("retain ", w.pool)
		}
	case 6, 7:
		if w.prober {
			return w.look(t)
		}
	default:
		if len(w.calls) == 0 || rng.IntN(5) < 2 {
			return w.call(t)
		}
		i := rng.IntN(len(w.calls))
		if rng.IntN(2) == 0 {
			i = len(w.calls) - 1
		}
		o := outcomesOfTests[rng.IntN(len(outcomesOfTests))]
		if rng.IntN(10) < w.mood {
			o = machine.Fault
		}
		w.calls[i].real.Report(outcomeError(o))
		w.calls[i].lab.Report(o, time.Now())
		if rng.IntN(3) > 0 { // else it may be told again
			w.calls = append(w.calls[:i], w.calls[i+1:]...)
		}
		return o.String()
	}
	return "nothing"
}

func (w *twoWorlds) call(t *testing.T) string {
	backend := w.all[w.rng.IntN(len(w.all))]
	switch w.lab.Verdict("big", backend, time.Now()).Decision {
	case machine.Trial:
		w.trials++
	case machine.Spare:
		w.spared++
	}
	p, err := w.real.Allow("big", backend)
	lab, labErr := w.lab.Allow("big", backend, time.Now())
	refused, _ := errors.AsType[*machine.OpenError](err)
	labRefused, _ := errors.AsType[*machine.OpenError](labErr)
	if (err == nil) != (labErr == nil) || err != nil && *refused != *labRefused {
		t.Fatalf("a call to %s: the gateway says %v, the lab %v", backend, err, labErr)
	}
	if err == nil {
		w.calls = append(w.calls, permits{p, lab})
	}
	return fmt.Sprint("a call to ", backend, ": ", err)
}

// look has both look what is due, and a probe of it come to an end.
func (w *twoWorlds) look(t *testing.T) string {
	now, due := time.Now(), map[machine.Key]bool{}
	for k, e := range *w.real.entries.Load() {
		if v := w.real.change(e, now, func() { e.Refresh(now) }); v.Probe == machine.OwnProbe {
			due[k] = true
		}
	}
	for _, k := range w.lab.DueProbes(now) {
		if _, twice := w.probes[k]; twice || !due[k] {
			t.Fatalf("the lab probes %v, the gateway %v; twice %v", k, due, twice)
		}
		w.probes[k] = 0
	}
	for k := range due {
		if _, probed := w.probes[k]; !probed {
			t.Fatalf("the gateway probes %v, the lab does not", k)
		}
	}
	for _, k := range w.pairs() {
		o := outcomesOfTests[w.rng.IntN(len(outcomesOfTests))]
		e := (*w.real.entries.Load())[k]
		if e == nil { // it has left the pool meanwhile
			w.lab.Probed(k, o, now)
			delete(w.probes, k)
			continue
		}
		var again bool
		var left machine.Report
		w.real.change(e, now, func() { again, left = e.Probed(o, w.probes[k], w.cfg, now) })
		if left != nil {
			left.Report(machine.Neutral, now)
		}
		if ours := w.lab.Probed(k, o, now); ours != again {
			t.Fatalf("%v was probed, %s: another follows in the gateway %v, in the lab %v", k, o, again, ours)
		}
		w.probes[k]++
		if !again {
			delete(w.probes, k)
		}
		if s := w.lab.Verdict(k.Pool, k.Backend, now); !again && s.Shown == machine.Closed {
			w.mended++
		}
	}
	return "a look"
}

// pairs are who is probed, in order: random numbers are drawn for them.
func (w *twoWorlds) pairs() []machine.Key {
	return slices.SortedFunc(maps.Keys(w.probes), func(a, b machine.Key) int { return strings.Compare(a.Backend, b.Backend) })
}

// compare holds what both say of all backends against each other.
func (w *twoWorlds) compare(t *testing.T, when string) {
	t.Helper()
	now := time.Now()
	for _, s := range w.real.States() {
		v := w.lab.Verdict(s.Pool, s.Backend, now)
		if got := (State{Pool: s.Pool, Backend: s.Backend, State: v.Display.String(), Remaining: v.Remaining, Alone: v.Alone}); got != s {
			t.Fatalf("%s: the gateway has %+v, the lab %+v", when, s, got)
		}
	}
	for _, b := range w.all {
		if r, l := w.real.Open("big", b), w.lab.Open("big", b, now); r != l {
			t.Fatalf("%s: %s is open: the gateway says %v, the lab %v", when, b, r, l)
		}
		if r, l := w.real.Shut("big", b), w.lab.Shut("big", b, now); r != l {
			t.Fatalf("%s: %s is shut: the gateway says %v, the lab %v", when, b, r, l)
		}
		if r, l := w.real.Ramp("big", b), w.lab.Ramp("big", b, now); r != l {
			t.Fatalf("%s: the ramp of %s: the gateway says %v, the lab %v", when, b, r, l)
		}
	}
}

// TestStatesHaveGobreakersNumbers holds the conversion between both.
func TestStatesHaveGobreakersNumbers(t *testing.T) {
	for ours, theirs := range map[machine.State]gobreaker.State{
		machine.Closed: gobreaker.StateClosed, machine.HalfOpen: gobreaker.StateHalfOpen, machine.Open: gobreaker.StateOpen,
	} {
		if int(ours) != int(theirs) || ours.String() != theirs.String() {
			t.Errorf("%d %s and %d %s", ours, ours, theirs, theirs)
		}
	}
}
