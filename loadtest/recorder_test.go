package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is an outcome that went well.
func answer(at, ttft, e2e time.Duration) Outcome {
	return Outcome{At: at, First: at + ttft, Done: at + e2e, End: Answered, TargetTokens: 10}
}

func TestPercentilesAreThoseOfTheSortedValues(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, exactly, exactly + 1, 5000, 60000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			l, values := latency{digits: 3}, []float64{}
			for range n {
				d := time.Duration(math.Exp(rng.NormFloat64()*2+11)) * time.Microsecond
				l.add(d)
				values = append(values, float64(d)/1e6)
			}
			slices.Sort(values)
			for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
				want := values[int(math.Ceil(q*float64(n)-1e-9))-1]
				got := l.at(q)[0]
				if got < want || got > want*1.001+0.001 {
					t.Errorf("p%v of %d is %v ms, want %v", 100*q, n, got, want)
				}
			}
		})
	}
}

func TestWhatArrivesInTheWarmUpIsNotCounted(t *testing.T) {
	r := NewRecorder(time.Minute)
	r.Add(answer(time.Minute-1, time.Second, 10*time.Second))
	r.Add(answer(time.Minute, time.Second, 2*time.Second))
	res := &Result{Recorder: r, Window: 10 * time.Second}
	if got := res.Row(); got.Requests != 1 || got.E2E99 != 2000 || got.RequestsPerSecond != 0.1 {
		t.Errorf("%+v", got)
	}
}

func TestLatencyCountsFromWhenTheRequestWasDue(t *testing.T) {
	r := NewRecorder(0)
	r.Add(Outcome{At: 5 * time.Second, First: 8 * time.Second, Done: 9 * time.Second, End: Answered})
	s := r.summary()
	if s.TTFT[0] != 3000 || s.E2E[0] != 4000 {
		t.Errorf("TTFT %v, E2E %v", s.TTFT, s.E2E)
	}
}

func TestOnlyAnswersHaveLatencies(t *testing.T) {
	r := NewRecorder(0)
	for _, end := range []string{Shed, Limited, Failed, Broken, ""} {
		r.Add(Outcome{First: time.Second, Done: time.Second, End: end, TargetTokens: 5})
	}
	r.Add(Outcome{Done: time.Second, End: Answered})
	s := r.summary()
	if s.TTFT[0] != 0 || s.E2E[0] != 1000 || s.Errors != 4 || s.Shed != 1 || s.TargetTokens != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAResultBecomesARow(t *testing.T) {
	r := NewRecorder(0)
	add := func(o Outcome) {
		o.End = Answered
		o.First, o.Done = o.At+100*time.Millisecond, o.At+time.Second
		r.Add(o)
	}
	add(Outcome{Acceptance: "accepted", DraftTokens: 30, Checked: true, Identical: true})
	add(Outcome{Acceptance: "accepted", DraftTokens: 30, Checked: true, Wrong: true})
	add(Outcome{Acceptance: "accepted", DraftTokens: 30})
	add(Outcome{Acceptance: "rejected", TargetTokens: 60, Checked: true, Identical: true})
	add(Outcome{Acceptance: "bypassed", TargetTokens: 25, Cached: true})
	add(Outcome{Acceptance: "accepted", TargetTokens: 25, Coalesced: true, Checked: true, Identical: true}) // judged before
	r.Add(Outcome{End: Shed})
	r.Add(Outcome{End: Limited})
	res := &Result{Case: "one", Window: 10 * time.Second, Recorder: r, Pools: []Usage{
		{Tier: "draft", GPUs: 1, USDPerHour: 0.6, Busy: 30 * time.Minute, PrefixQueries: 100, PrefixHits: 10, Preemptions: 1},
		{Tier: "target", GPUs: 4, USDPerHour: 10, Busy: time.Hour, PrefixQueries: 100, PrefixHits: 80, OOMDeaths: 2},
	}}
	want := Row{
		Name: "one", Requests: 8, Errors: 1, Shed: 1, Escalated: 1, Cached: 1, Coalesced: 1,
		TTFT50: 100, TTFT95: 100, TTFT99: 100, E2E50: 1000, E2E95: 1000, E2E99: 1000,
		RequestsPerSecond: 0.6, TokensPerSecond: 20,
		PrefixHitRate: 0.45, Preemptions: 1, OOMDeaths: 2, GPUSeconds: 1800 + 14400, USDPerMTok: 10.3 * 1e6 / 200,
		Acceptance: 0.75, DraftTokenShare: 0.45, CheckedDisagreement: 0.5, SharedDrafts: 1, Identical: 0.75, CacheHitRate: 2.0 / 6,
		DraftGPUSeconds: 1800, TargetGPUSeconds: 14400, DraftUSD: 0.3, TargetUSD: 10,
	}
	if diff := cmp.Diff(want, res.Row()); diff != "" {
		t.Error(diff)
	}
}

func recorded(os ...Outcome) *Recorder {
	r := NewRecorder(0)
	for _, o := range os {
		r.Add(o)
	}
	return r
}

func TestTheOutcomeOfAnErrorIsNamedByItsEndAndDetail(t *testing.T) {
	r := recorded(
		Outcome{End: Failed, Detail: "timeout"}, Outcome{End: Failed, Detail: "timeout"},
		Outcome{End: Shed, Detail: "kv"}, Outcome{End: Limited}, Outcome{})
	names := []string{}
	for _, d := range r.summary().Details {
		names = append(names, fmt.Sprint(d.N, " ", d.Name))
	}
	if got, want := strings.Join(names, ", "), "2 failed: timeout, 1 failed, 1 limited, 1 shed: kv"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
