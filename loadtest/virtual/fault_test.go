package virtual

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// sight is a call to a backend.
type sight struct {
	at      time.Duration
	backend int
	calls   float64
}

// seen is a run and the calls that it made.
type seen struct {
	*lab
	calls   []sight
	running []int // on each backend when the fault struck
}

// watch runs a case and looks after each event which backends were called.
func watch(t *testing.T, s *loadtest.Scenario, c *loadtest.Case) *seen {
	t.Helper()
	l, err := newLab(s, c, s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	v := &seen{lab: l}
	defer l.clock.End()
	if err := v.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v
}

// play is run, with a look after each event.
func (s *seen) play(ctx context.Context) error {
	backends := s.pools["target"].Backends
	was := make([]int, len(backends))
	s.begin()
	s.clock.At(struck-1, func() {
		for _, b := range backends {
			c := b.Counts()
			s.running = append(s.running, c.Running+c.Waiting)
		}
	})
	for !s.ended || s.open > 0 {
		if !s.clock.Step() {
			return errors.New("the run waits for something that never comes")
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, b := range backends {
			if b.Calls > was[i] {
				s.calls = append(s.calls, sight{s.clock.Elapsed(), i, float64(b.Calls - was[i])})
				was[i] = b.Calls
			}
		}
	}
	return nil
}

// share is a backend's part of the calls in a window, and how many there were.
func (s *seen) share(backend int, from, to time.Duration) (share, calls float64) {
	for _, c := range s.calls {
		if c.at >= from && c.at < to {
			calls += c.calls
			if c.backend == backend {
				share += c.calls
			}
		}
	}
	return share / max(calls, 1), calls
}

// last is when a backend was called last within a window.
func (s *seen) last(backend int, from, to time.Duration) (last time.Duration) {
	for _, c := range s.calls {
		if c.backend == backend && c.at >= from && c.at < to {
			last = c.at
		}
	}
	return last
}

// busy is three replicas and eight backends, half busy, with conversations and shared
// documents.
const busy = `
about: x
duration: 60s
deadline: 60s
replicas: 3
arrivals: {poisson: 40}
prompts:
  - {name: document, weight: 2, system: {tokens: 2000, variants: 40, zipf: 0.7}, question: {p50: 40, p95: 200}, output: {p50: 100, p95: 300, max: 500}}
  - {name: chat, weight: 2, question: {p50: 60, p95: 400}, turns: {min: 1, max: 3}, think: 2, output: {p50: 100, p95: 300, max: 500}}
target: {profile: a100-8b, count: 8, usd_per_hour: 1, restart: 25s}
settings: {speculation.mode: "off", shed.low: 1, shed.normal: 1, shed.high: 1}
`

const (
	struck = 20 * time.Second // when the fault begins
	sick   = 3                // whom it strikes
	fair   = 1.0 / 8
)

// TestFaultsThatTheBaselinesDoNotShow looks at single picks while something goes wrong.
// It runs where the baselines run.
func TestFaultsThatTheBaselinesDoNotShow(t *testing.T) {
	if slow {
		t.Skip("left out under the race detector; make baselines runs it without")
	}
	for name, test := range map[string]func(*testing.T){
		"a backend that dies is called no more after two seconds and no client sees it": dies,
		"a restarted backend starts below its share and grows":                          restarts,
		"a burst is spread over all backends":                                           bursts,
	} {
		t.Run(name, test)
	}
}

// strike runs busy with one fault.
func strike(t *testing.T, text string, f loadtest.Fault) (*seen, loadtest.Row) {
	t.Helper()
	s := scenario(t, text)
	if f.At == 0 {
		f.At = struck
	}
	f.Pool, f.Backend = "target", sick
	s.Faults = []loadtest.Fault{f}
	if testing.Short() {
		s.Duration = 45 * time.Second
	}
	v := watch(t, s, &s.Cases[0])
	row := v.result().Row()
	if row.Requests < int(s.Duration.Seconds())*33 {
		t.Fatalf("only %d requests", row.Requests)
	}
	return v, row
}

func dies(t *testing.T) {
	for _, streams := range []string{"false", "true"} {
		text := strings.ReplaceAll(busy, "output: {p50", "stream: "+streams+", output: {p50")
		v, row := strike(t, text, loadtest.Fault{Die: true, For: 25 * time.Second})
		last := v.last(sick, struck, struck+25*time.Second)
		t.Logf("last called %v after its death; %d of %d failed", last-struck, row.Errors, row.Requests)
		if last > struck+2*time.Second {
			t.Errorf("called %v after its death", last-struck)
		}
		// An answer that had begun to stream is lost, and no other.
		if streams == "false" && row.Errors > 0 || row.Errors > v.running[sick] {
			t.Errorf("stream %s: %d requests failed, %d were running there", streams, row.Errors, v.running[sick])
		}
	}
}

func restarts(t *testing.T) {
	v, _ := strike(t, busy, loadtest.Fault{Die: true, For: 10 * time.Second})
	back := struck + 10*time.Second
	first := time.Duration(math.MaxInt64)
	for _, c := range v.calls {
		if c.backend == sick && c.at > back && c.at < first {
			first = c.at
		}
	}
	if first > back+4*time.Second {
		t.Fatalf("first called %v after its return", first-back)
	}
	early, _ := v.share(sick, back, back+2*time.Second)
	middle, _ := v.share(sick, back+2*time.Second, back+6*time.Second)
	late, _ := v.share(sick, back+6*time.Second, back+12*time.Second)
	t.Logf("shares %.3f, %.3f, %.3f; fair %.3f", early, middle, late, fair)
	if early >= fair || early > middle || middle > late*1.1 || late < fair/2 {
		t.Errorf("shares %.3f, %.3f, %.3f; fair is %.3f", early, middle, late, fair)
	}
}

// bursts holds fit to its bound where all come at once: one and a half times the fair
// share, with three seeds; the short form has one.
func bursts(t *testing.T) {
	s, err := loadtest.Load(filepath.Join("..", "scenarios", "bursty-multitenant.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = 8 * time.Minute
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	i := slices.IndexFunc(s.Cases, func(c loadtest.Case) bool { return c.Name == "fit" })
	for s.Seed = 1; s.Seed <= seeds; s.Seed++ {
		v := watch(t, s, &s.Cases[i])
		worst := v.busiest(s.Duration)
		t.Logf("seed %d: the most is %.2f times the fair share", s.Seed, worst)
		if worst == 0 || worst > 1.5 {
			t.Errorf("seed %d: %.2f times the fair share; 0 is no burst", s.Seed, worst)
		}
	}
}

// busiest is the greatest share of the calls of a burst's 5 s that one backend got, as
// a multiple of the fair one; 0 is that there was no burst.
func (s *seen) busiest(until time.Duration) (worst float64) {
	const window = 5 * time.Second
	for from := time.Duration(0); from < until; from += time.Second {
		for b := range s.pools["target"].Backends {
			share, calls := s.share(b, from, from+window)
			if calls < 200 {
				break
			}
			worst = max(worst, share/fair)
		}
	}
	return worst
}
