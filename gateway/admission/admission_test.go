package admission

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	low    = identity.Low
	normal = identity.Normal
	high   = identity.High
)

func at(usages ...float64) []Load {
	loads := make([]Load, len(usages))
	for i, u := range usages {
		loads[i] = Load{Usage: u, Known: true}
	}
	return loads
}

func TestAClassIsShedWhenEveryKnownBackendIsAtItsThreshold(t *testing.T) {
	cfg := DefaultConfig()
	unknown := Load{Usage: 0.99}
	nan := Load{Usage: math.NaN(), Known: true}
	for _, tc := range []struct {
		name      string
		class     identity.Priority
		loads     []Load
		was       bool
		shed      bool
		usage     float64
		threshold float64
	}{
		{"below", low, at(0.8499), false, false, 0.8499, 0.85},
		{"at the threshold", low, at(0.85), false, true, 0.85, 0.85},
		{"above", low, at(0.91), false, true, 0.91, 0.85},
		{"one backend with room is enough", low, at(0.99, 0.84, 1), false, false, 0.84, 0.85},
		{"the least usage is told", low, at(0.99, 0.9, 1), false, true, 0.9, 0.85},
		{"normal stands longer", normal, at(0.91), false, false, 0.91, 0.95},
		{"normal at its threshold", normal, at(0.95), false, true, 0.95, 0.95},
		{"high only when nothing is left", high, at(0.999), false, false, 0.999, 1},
		{"high when full", high, at(1), false, true, 1, 1},
		{"still shed within the release", low, at(0.81), true, true, 0.81, 0.8},
		{"still shed at the release", low, at(0.8), true, true, 0.8, 0.8},
		{"released below it", low, at(0.79), true, false, 0.79, 0.8},
		{"no backends", low, nil, false, false, 0, 0.85},
		{"nothing known", low, []Load{unknown, unknown}, false, false, 0, 0.85},
		{"nothing known while shedding", low, []Load{unknown}, true, false, 0, 0.8},
		{"NaN is unknown, not idle", low, []Load{nan, at(0.9)[0]}, false, true, 0.9, 0.85},
		{"NaN is unknown, not full", low, []Load{nan}, false, false, 0, 0.85},
		{"NaN does not hide room", low, []Load{nan, at(0.1)[0]}, false, false, 0.1, 0.85},
		{"85 is a percentage, not a usage", low, at(85), false, false, 0, 0.85},
		{"infinite is unknown", low, at(math.Inf(1), math.Inf(-1)), false, false, 0, 0.85},
		{"negative is unknown, not idle", low, at(-0.1, 0.9), false, true, 0.9, 0.85},
		{"an unknown backend does not save a full pool", low, []Load{unknown, at(0.9)[0]}, false, true, 0.9, 0.85},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := Decision{Shed: tc.shed, Pool: "draft", Class: tc.class, Usage: tc.usage, Threshold: tc.threshold}
			if tc.shed {
				want.Reason = ReasonKV
			}
			got := Shed(cfg, tc.class, "draft", tc.loads, tc.was)
			got.Threshold = math.Round(got.Threshold*1e9) / 1e9 // 0.85 − 0.05
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestALongQueueShedsLowAlone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Queue = 4
	queues := []Load{{Usage: 0.5, Known: true, Waiting: 9}, {Usage: 0.1, Known: true, Waiting: 5}, {Waiting: 0}}
	want := Decision{Shed: true, Pool: "p", Class: low, Usage: 5, Threshold: 4, Reason: ReasonQueue}
	if diff := cmp.Diff(want, Shed(cfg, low, "p", queues, false)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d := Shed(cfg, normal, "p", queues, false); d.Shed {
		t.Errorf("normal: %+v", d)
	}
	queues[1].Waiting = 4
	if d := Shed(cfg, low, "p", queues, false); d.Shed {
		t.Errorf("at the limit: %+v", d)
	}
	cfg.Queue = 0
	queues[1].Waiting = 1000
	if d := Shed(cfg, low, "p", queues, false); d.Shed {
		t.Errorf("off: %+v", d)
	}
}

func TestAThresholdOfZeroClosesTheClassWhateverIsKnown(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Low = 0
	for _, loads := range [][]Load{nil, at(0), at(math.NaN()), {{}}} {
		d := Shed(cfg, low, "p", loads, false)
		if !d.Shed || d.Reason != ReasonKV || RetryAfter(d, 0.999) != 30*time.Second {
			t.Errorf("%v: %+v", loads, d)
		}
		if d := Shed(cfg, normal, "p", loads, false); d.Shed {
			t.Errorf("normal: %+v", d)
		}
	}
}

func TestADecisionIsToldAsAHeader(t *testing.T) {
	d := Shed(DefaultConfig(), low, "draft", at(0.91), false)
	if got, want := d.String(), "kv_pressure;pool=draft;usage=0.91;threshold=0.85"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Decision{}).String(); got != "" {
		t.Errorf("nothing shed: got %q", got)
	}
}

func TestRetryAfterIsWholeSecondsThatGrowWithTheLoad(t *testing.T) {
	kv := func(usage, threshold float64) Decision {
		return Decision{Shed: true, Usage: usage, Threshold: threshold, Reason: ReasonKV}
	}
	queue := Decision{Shed: true, Usage: 6, Threshold: 4, Reason: ReasonQueue}
	for _, tc := range []struct {
		name string
		d    Decision
		r    float64
		want time.Duration
	}{
		{"just over, first", kv(0.85, 0.85), 0, time.Second},
		{"just over, last", kv(0.85, 0.85), 0.999, 5 * time.Second},
		{"full, first", kv(1, 0.85), 0, time.Second},
		{"full, half", kv(1, 0.85), 0.5, 16 * time.Second},
		{"full, last", kv(1, 0.85), 0.999, 30 * time.Second},
		{"full at a threshold of 1", kv(1, 1), 0.999, 30 * time.Second},
		{"queue half over", queue, 0.999, 18 * time.Second},
		{"r out of range", kv(1, 0.85), 7, 30 * time.Second},
		{"r negative", kv(1, 0.85), -7, time.Second},
		{"r NaN", kv(1, 0.85), math.NaN(), 30 * time.Second},
		{"usage NaN", kv(math.NaN(), 0.85), 0.5, 30 * time.Second},
	} {
		if got := RetryAfter(tc.d, tc.r); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRefusalsSayWhatAndWhen(t *testing.T) {
	d := Shed(DefaultConfig(), low, "draft", at(0.91), false)
	d.RetryAfter = 7 * time.Second
	shed := error(&ShedError{Decision: d})
	if got, want := shed.Error(), "pool draft is too busy for priority low: 0.91 KV memory in use, limit 0.85; retry in 7s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	limited := error(&LimitError{Tenant: "acme", Wait: 1200 * time.Millisecond})
	if got, want := limited.Error(), "tenant acme has used up its requests per minute; retry in 2s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(shed, ErrShed) || !errors.Is(limited, ErrLimited) || errors.Is(shed, ErrLimited) {
		t.Error("the refusals are not what errors.Is looks for")
	}
	if got := (&LimitError{}).RetryAfter(); got != time.Second {
		t.Errorf("no wait: got %v", got)
	}
}

// FuzzShed checks that no reading, however odd, sheds without evidence or lets
// a class in that every sound reading forbids.
func FuzzShed(f *testing.F) {
	f.Add(0.9, 0.2, true, true, 0.5)
	f.Add(math.NaN(), 1.0, true, true, 0.0)
	f.Fuzz(func(t *testing.T, a, b float64, knownA, knownB bool, r float64) {
		cfg := DefaultConfig()
		loads := []Load{{Usage: a, Known: knownA}, {Usage: b, Known: knownB}}
		sound, full := 0, 0
		for _, l := range loads {
			if l.Known && l.Usage >= 0 && l.Usage <= 1 {
				sound++
				if l.Usage >= cfg.Low {
					full++
				}
			}
		}
		d := Shed(cfg, low, "p", loads, false)
		if d.Shed != (sound > 0 && sound == full) {
			t.Errorf("%+v gave %+v", loads, d)
		}
		if s := RetryAfter(d, r); s < time.Second || s > 30*time.Second || s%time.Second != 0 {
			t.Errorf("retry after %v", s)
		}
	})
}
