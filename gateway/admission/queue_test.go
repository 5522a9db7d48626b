package admission

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

func TestAClassEntersBelowItsThresholdAndNotAtIt(t *testing.T) {
	for _, c := range []struct {
		class identity.Priority
		usage float64
		want  string // without a wait
	}{
		{low, 0, "in"}, {low, 0.8499, "in"}, {low, 0.85, ReasonKV}, {low, 0.91, ReasonKV},
		{normal, 0.91, "in"}, {normal, 0.9499, "in"}, {normal, 0.95, ReasonKV},
		{high, 0.95, "in"}, {high, 0.9999, "in"}, {high, 1, ReasonKV},
	} {
		b := newBench(t)
		b.cfg.MaxWait = [3]time.Duration{}
		b.mem.usage = c.usage
		a := b.enter(c.class, "t", nil)
		b.want(a, c.want)
		if c.want == "in" {
			continue
		}
		d := errOf(t, a)
		want := ShedError{Pool: "p", Class: c.class, Usage: c.usage, Threshold: b.cfg.Threshold[c.class], Reason: ReasonKV, RetryAfter: time.Second}
		if d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
}

func errOf(t *testing.T, a *asked) ShedError {
	t.Helper()
	shed, ok := errors.AsType[*ShedError](a.err)
	if !ok {
		t.Fatalf("%s of %s: %s, want it shed", a.Class, a.Tenant, a.is())
	}
	return *shed
}

func TestAThresholdOfZeroClosesTheClassAndNoOther(t *testing.T) {
	for _, closed := range []identity.Priority{low, normal, high} {
		b := newBench(t)
		b.cfg.Threshold[closed] = 0
		for class := low; class <= high; class++ {
			a := b.enter(class, "t", nil)
			if class != closed {
				b.want(a, "in")
				continue
			}
			if d := errOf(t, a); d.Reason != ReasonKV || d.RetryAfter < 15*time.Second || d.Threshold != 0 {
				t.Errorf("%+v", d)
			}
		}
		if len(b.mem.asked) != 2 {
			t.Errorf("%s is closed, but was tried: %+v", closed, b.mem.asked)
		}
	}
}

func TestWhatIsForeseenCountsUnlessItIsOff(t *testing.T) {
	b := newBench(t)
	b.cfg.QueueDepth = 7
	b.enter(low, "t", nil)
	b.enter(high, "t", nil)
	b.cfg.Forecast = false
	b.enter(normal, "t", nil)
	want := []pool.Admission{{MaxUsage: 0.85, MaxQueue: 7, CanWaitForWarm: true}, {MaxUsage: 1, CanWaitForWarm: true}, {MaxUsage: 0.95, Now: true, CanWaitForWarm: true}}
	for i, l := range b.mem.asked {
		if l != want[i] {
			t.Errorf("asked %+v, want %+v", l, want[i])
		}
	}
}

func TestAShedClassComesBackOnlyBelowTheReleaseAndNotWithinASecond(t *testing.T) {
	b := newBench(t)
	b.cfg.MaxWait[low] = 0
	for i, step := range []struct {
		after time.Duration
		usage float64
		want  string
		shed  bool
	}{
		{0, 0.84, "in", false},
		{0, 0.85, ReasonKV, true},
		{2 * time.Second, 0.84, ReasonKV, true}, // below the threshold, above the release
		{0, 0.80, ReasonKV, true},
		{0, 0.7999, "in", false},
		{0, 0.84, "in", false},
		{10 * time.Millisecond, 0.86, ReasonKV, false}, // has no room, and counts as shed a second after the last flip
		{990 * time.Millisecond, 0.86, ReasonKV, true},
		{500 * time.Millisecond, 0.5, "in", true}, // has room, and stays shed for a second
		{499 * time.Millisecond, 0.5, "in", true},
		{time.Millisecond, 0.5, "in", false},
	} {
		b.now = b.now.Add(step.after)
		b.mem.usage = step.usage
		a := b.enter(low, "t", nil)
		if a.is() != step.want || b.Shedding("r", low, b.now) != step.shed {
			t.Errorf("step %d, usage %v: %s, shed %v", i, step.usage, a.is(), b.Shedding("r", low, b.now))
		}
	}
}

func TestAQueueOrGrowthIsToldAsSuchAndLowersNoThreshold(t *testing.T) {
	b := newBench(t)
	b.cfg.MaxWait[low], b.cfg.QueueDepth = 0, 4
	b.mem.usage, b.mem.waiting = 0.5, 5
	if d := errOf(t, b.enter(low, "t", nil)); d.Reason != ReasonBackendQueue || d.Usage != 5 || d.Threshold != 4 {
		t.Errorf("%+v", d)
	}
	b.want(b.enter(normal, "t", nil), "in")
	b.mem.waiting, b.mem.places = 0, 0
	if d := errOf(t, b.enter(low, "t", nil)); d.Reason != ReasonGrowth || math.Abs(d.Usage-0.86) > 1e-9 || d.Threshold != 0.85 {
		t.Errorf("%+v", d)
	}
	if b.Shedding("r", low, b.now) {
		t.Error("shed for its usage, which is low")
	}
}

func TestWhoseWaitWouldBeInVainIsRefusedAtOnceAndToldWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		class  identity.Priority
		wait   time.Duration
		want   string
		retry  time.Duration
		change func(*Ticket)
	}{
		{low, 10 * time.Second, "waits", 0, nil},
		{low, 10*time.Second + 1, ReasonGrowth, 4 * time.Second, nil},
		{normal, 15 * time.Second, "waits", 0, nil},
		{normal, 20 * time.Second, ReasonGrowth, 4 * time.Second, nil},
		{high, 30 * time.Second, "waits", 0, nil},
		{high, time.Hour, "waits", 0, nil}, // what a pool tells of itself may be wrong
		{low, time.Hour, "waits", 0, func(w *Ticket) { w.MidStream = true }},
	} {
		b := newBench(t)
		b.mem.usage, b.mem.places, b.mem.wait = 0.5, 0, c.wait
		a := b.enter(c.class, "t", c.change)
		b.want(a, c.want)
		if a.err != nil && errOf(t, a).RetryAfter != c.retry {
			t.Errorf("%s, %v: retry after %v, want %v", c.class, c.wait, errOf(t, a).RetryAfter, c.retry)
		}
	}
}

func TestAClassAboveItsThresholdIsRefusedAtOnceAndOneBelowItWaits(t *testing.T) {
	for _, c := range []struct {
		class    identity.Priority
		usage    float64
		forecast bool
		want     string
	}{
		{low, 0.85, true, ReasonKV},
		{low, 0.85, false, ReasonKV},
		{low, 0.84, true, "waits"},
		{normal, 0.95, true, ReasonKV},
		{normal, 0.95, false, ReasonKV},
		{normal, 0.94, true, "waits"},
		{high, 1, true, "waits"}, // no usage is above its threshold, 1
	} {
		b := newBench(t)
		b.cfg.Forecast = c.forecast
		b.mem.usage, b.mem.places = c.usage, 0
		b.want(b.enter(c.class, "t", nil), c.want)
		b.want(b.enter(c.class, "other", nil), c.want)
		if a := b.enter(c.class, "t", func(w *Ticket) { w.MidStream = true }); a.err != nil {
			t.Errorf("%s, whose answer has begun: %s", c.class, a.is())
		}
	}
}

func TestWhoWaitsIsRefusedWhenItsClassComesAboveItsThreshold(t *testing.T) {
	for _, ahead := range []identity.Priority{low, normal, high} { // whose turn is first, so that it is the one that is tried
		b := newBench(t)
		b.mem.usage, b.mem.places = 0.5, 0
		first := b.enter(ahead, "first", nil)
		waits := b.enter(low, "t", nil)
		b.want(waits, "waits")
		b.mem.usage = 0.86
		b.serve(pollInterval)
		b.serve(pollInterval)
		b.want(waits, ReasonKV)
		if ahead > low {
			b.want(first, "waits")
			b.want(b.enter(low, "t", nil), ReasonKV) // although it is not its turn to be tried
		}
	}
}

func TestWaitsEnd(t *testing.T) {
	for class, wait := range map[identity.Priority]time.Duration{low: 10 * time.Second, normal: 15 * time.Second, high: 30 * time.Second} {
		b := newBench(t)
		b.mem.places = 0
		a := b.enter(class, "t", nil)
		b.serve(wait - 1)
		b.want(a, "waits")
		b.serve(1)
		b.want(a, ReasonGrowth)
		if b.Len() != 0 || b.ClassLen(class) != 0 {
			t.Errorf("%d still wait", b.Len())
		}
	}
}

func TestMustIsNeverTurnedAway(t *testing.T) {
	must := func(w *Ticket) { w.MidStream = true }
	for class := low; class <= high; class++ {
		t.Run(class.String(), func(t *testing.T) {
			b := newBench(t)
			b.mem.places = 0
			a := b.enter(class, "t", must)
			b.want(a, "waits")
			if b.ClassLen(high) != 1 {
				t.Error("it is not shown with high")
			}
			b.serve(maxMidStreamWait - 1)
			b.want(a, "waits")
			b.serve(1)
			b.want(a, "in")

			b.cfg.MaxWait[high] = 0
			b.want(b.enter(class, "t", must), "in")

			b = newBench(t)
			b.cfg.Threshold = [3]float64{}
			b.mem.usage = 1
			b.want(b.enter(class, "t", must), "in")

			b = newBench(t)
			b.mem.places = 0
			for i := range 2 * maxWaiting {
				b.want(b.enter(high, fmt.Sprint(i%500), must), "waits")
			}
			b.want(b.enter(class, "t", must), "in")
		})
	}
}

func TestWhatWaitsIsBoundedForEachClass(t *testing.T) {
	b := newBench(t)
	b.mem.places = 0
	for class := low; class <= high; class++ {
		for i := range maxWaiting {
			b.want(b.enter(class, fmt.Sprint(i%7), nil), "waits")
		}
		a := b.enter(class, "3", nil)
		if d := errOf(t, a); d.Reason != ReasonQueueFull || d.Usage != float64(b.Len()) || d.RetryAfter < time.Second {
			t.Errorf("%+v", d)
		}
		if b.ClassLen(class) != maxWaiting {
			t.Errorf("%d of %s wait", b.ClassLen(class), class)
		}
		for i := range maxWaiting { // tenants of whom few wait find a place
			b.want(b.enter(class, fmt.Sprint("few", i/guaranteedPerTenant), nil), "waits")
		}
		b.want(b.enter(class, "one more", nil), ReasonQueueFull)
	}
	if b.Len() != 6*maxWaiting {
		t.Errorf("%d wait", b.Len())
	}
}
