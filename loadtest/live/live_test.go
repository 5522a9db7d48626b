package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

const steady = `
about: Twenty seconds of steady load on a small fleet.
duration: 20s
warmup: 2s
time_scale: 20
arrivals: {rate: 4}
prompts: [{name: chat, question: 40, turns: {min: 1, max: 2}, think: 1, max_tokens: 60}]
draft: {profile: a10g-8b, count: 2, divergence: 0.5, usd_per_hour: 1}
target: {profile: h100-70b-tp4, usd_per_hour: 27.5}
replicas: 2
settings: {speculation.mode: confidence, speculation.holdback_ms: "600", speculation.threshold_nats: "0.2"}
`

func TestACaseRunsAgainstRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	o := options(t, steady)
	var checked atomic.Int64
	o.Check = func(q *loadtest.Request, text string, out *loadtest.Outcome) {
		out.Checked, out.Identical = true, text != "" && len(q.Messages) > 0
		checked.Add(1)
	}
	r := mustRun(t, o)
	row := r.Row()
	if row.Requests < 18*4 || row.Errors != 0 || row.Shed != 0 {
		t.Errorf("%d requests, %d errors, %d shed; want 72 or more, and no others", row.Requests, row.Errors, row.Shed)
	}
	if row.DraftTokenShare <= 0 || row.DraftTokenShare >= 1 || row.Acceptance <= 0 || row.Escalated <= 0 {
		t.Errorf("both tiers should have answered: share %v, acceptance %v", row.DraftTokenShare, row.Acceptance)
	}
	if row.TTFT50 < 100 || row.TTFT50 > row.TTFT99 || row.E2E50 <= row.TTFT50 || row.E2E99 > 60_000 {
		t.Errorf("first token p50 %v ms, p99 %v ms, end p50 %v ms", row.TTFT50, row.TTFT99, row.E2E50)
	}
	if row.Identical != 1 || int(checked.Load()) != row.Requests {
		t.Errorf("%d of %d answers were checked, identical %v", checked.Load(), row.Requests, row.Identical)
	}
	if len(r.Pools) != 2 || r.Pools[0].Tier != "draft" || r.Pools[0].Backends != 2 || r.Pools[1].GPUs != 4 {
		t.Fatalf("pools %+v", r.Pools)
	}
	for _, p := range r.Pools {
		if p.Busy <= 0 || p.Generated <= 0 || p.PrefixQueries <= 0 {
			t.Errorf("a pool did nothing: %+v", p)
		}
	}
	if r.PeakKV <= 0 || r.PeakKV > 1 {
		t.Errorf("at most %v of a backend's memory was used", r.PeakKV)
	}
}

const small = `
about: A target alone.
duration: 10s
time_scale: 20
arrivals: {closed: {users: 4, think: 0.2}}
prompts: [{name: chat, question: 20, max_tokens: 20}]
target: {profile: h100-70b-tp4}
`

func TestARunThatIsGivenUpLeavesNothing(t *testing.T) {
	o := options(t, strings.Replace(steady, "duration: 20s", "duration: 1h", 1))
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Check = func(*loadtest.Request, string, *loadtest.Outcome) { cancel() }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	if t.Failed() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	}
}

func TestAReplicaThatDiesFailsTheRunWithItsLog(t *testing.T) {
	failed := make(chan error, 1)
	s, err := startSystem(t.Context(), options(t, small), func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	s.Gateways[0].Kill()
	if err := <-failed; !strings.Contains(err.Error(), "gateway 0 ended by itself: signal: killed") {
		t.Error(err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	o := options(t, small)
	o.Gateway = filepath.Join(t.TempDir(), "foregate")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "run make build") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "install redis-server") {
		t.Error(err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestASettingThatTheGatewayRefusesFailsTheRun(t *testing.T) {
	o := options(t, small+"settings: {shed.low: \"7\"}\n")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "refuses the case's settings shed.low") {
		t.Error(err)
	}
}

// children are the processes that this one has started and that still are.
func children(t *testing.T) (names []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		text, err := os.ReadFile(d)
		if err != nil {
			continue // it has ended since
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			names = append(names, name)
		}
	}
	return names
}

func TestWhatDistortsAResultIsNoted(t *testing.T) {
	var notes []string
	s := scenario(t, steady)
	o := Options{Scenario: s, Case: &s.Cases[0], Note: func(text string) { notes = append(notes, text) }}
	work, err := loadtest.NewWorkload(o.Scenario, o.Case, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(&o, &system{}, work, newClient(&o, nil))
	r.gauge = &gauge{sys: r.sys}
	r.notes()
	if len(notes) > 0 {
		t.Errorf("nothing went wrong, but %q", notes)
	}
	r.sent.Store(10)
	r.late.Store(int64(10 * time.Second))
	raise(&r.latest, int64(2*time.Second))
	raise(&r.latest, int64(time.Second))
	r.unchecked.Store(3)
	r.settle(nil, "", loadtest.Outcome{End: loadtest.Failed, Detail: clientFull})
	r.notes()
	got := strings.Join(notes, "\n")
	for _, want := range []string{"sent 1s later than they were due, 2s at most", "3 answers came too fast", "1 requests failed in the client"} {
		if !strings.Contains(got, want) {
			t.Errorf("no word of %q in\n%s", want, got)
		}
	}
}
