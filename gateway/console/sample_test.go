package console

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestQuantilesAreThoseOfPrometheus(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name        string
		ends, below []float64
		q, want     float64
	}{
		{"in the middle of a bucket", []float64{1, 2, inf}, []float64{10, 20, 20}, 0.75, 1.5},
		{"at the end of a bucket", []float64{1, 2, inf}, []float64{10, 20, 20}, 0.5, 1},
		{"the first bucket begins at 0", []float64{1, 2, inf}, []float64{10, 20, 20}, 0.25, 0.5},
		{"a bucket that nothing fell in is passed over", []float64{1, 2, 4, inf}, []float64{5, 5, 10, 10}, 0.75, 3},
		{"what lies beyond all is the last end", []float64{1, 2, inf}, []float64{0, 1, 10}, 0.95, 2},
		{"all lies beyond", []float64{1, 2, inf}, []float64{0, 0, 10}, 0.5, 2},
		{"one alone", []float64{1, 2, inf}, []float64{0, 1, 1}, 0.5, 1.5},
		{"a first end below 0 is itself", []float64{-1, 2, inf}, []float64{10, 10, 10}, 0.5, -1},
		{"a bucket from below 0", []float64{-2, 2, inf}, []float64{0, 10, 10}, 0.5, 0},
	} {
		if got := quantile(c.ends, c.below, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: got %g, want %g", c.name, got, c.want)
		}
	}
}

// every gives counts so far apart, each with the metrics of its place.
func every(t *testing.T, apart time.Duration, each ...[]string) []counts {
	t.Helper()
	var all []counts
	for i, lines := range each {
		all = append(all, counted(t, time.Duration(i)*apart, lines...))
	}
	return all
}

func TestAtTheStartNothingIsKnownButWhatStands(t *testing.T) {
	all := every(t, 0, []string{
		`foregate_requests_total{code="200",route="m",tier="draft"} 9`, `foregate_acceptance_total{verdict="accepted"} 9`,
		`llm_cache_requests_total{result="hit"} 9`, `foregate_cost_usd_total 3`, `foregate_saved_usd 1`, `foregate_cache_saved_usd_total 2`,
		`llm_request_duration_seconds_bucket{stream="false",le="1"} 9`, `llm_request_duration_seconds_count{stream="false"} 9`,
	})
	got := sampleOf(all, ReplicaState{Replicas: 3})
	want := Sample{Time: float64(noon.Unix()), Replicas: 3, Requests: map[string]float64{"draft": 0}, Spent: new(3.0), Saved: new(3.0)}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestRatesAreOverTenSecondsAndSharesOverThirty(t *testing.T) {
	var each [][]string
	for i := range 16 { // every two seconds; requests and hits come faster and faster
		n := i * i
		each = append(each, []string{
			fmt.Sprintf(`foregate_requests_total{code="200",route="m",tier="draft"} %d`, n), fmt.Sprintf(`foregate_requests_total{code="200",route="m",tier="cache"} %d`, n),
			fmt.Sprintf(`foregate_shed_total{priority="low"} %d`, n),
			fmt.Sprintf(`foregate_acceptance_total{verdict="accepted"} %d`, n), fmt.Sprintf(`foregate_acceptance_total{verdict="rejected"} %d`, 3*i), `foregate_acceptance_total{verdict="bypassed"} 1000`,
			fmt.Sprintf(`llm_cache_requests_total{result="hit"} %d`, i), fmt.Sprintf(`llm_cache_requests_total{result="local"} %d`, i), fmt.Sprintf(`llm_cache_requests_total{result="miss"} %d`, 2*i), fmt.Sprintf(`llm_cache_requests_total{result="bypass"} %d`, 99*i),
			fmt.Sprintf(`foregate_cost_usd_total %g`, float64(i)/10),
		})
	}
	s := sampleOf(every(t, 2*time.Second, each...), ReplicaState{})
	if got, want := s.Requests["draft"], (225.0-100)/10; got != want {
		t.Errorf("%g requests a second, want %g", got, want)
	}
	if got, want := s.Shed["low"], (225.0-100)/10; got != want {
		t.Errorf("%g shed a second, want %g", got, want)
	}
	if s.Acceptance == nil || *s.Acceptance != 225.0/(225+45) {
		t.Errorf("acceptance %v, want 225 of 270", s.Acceptance)
	}
	if s.Drafted == nil || *s.Drafted != 270.0/450 || *s.ServedByDraft != 225.0/450 {
		t.Errorf("drafted %v, served %v, want 270 and 225 of 450 requests", s.Drafted, s.ServedByDraft)
	}
	if s.CacheHitRatio == nil || *s.CacheHitRatio != 0.5 {
		t.Errorf("cache hits %v, want a half of those that asked", s.CacheHitRatio)
	}
	if s.SpentPerHour == nil || math.Abs(*s.SpentPerHour-1.5*120) > 1e-9 {
		t.Errorf("%v USD an hour, want 1.5 in half a minute", s.SpentPerHour)
	}
}

// A series goes when its backend or its route does, and what is left is less than before.
func TestCountersThatFallAreNoTraffic(t *testing.T) {
	before := []string{
		`foregate_requests_total{code="200",route="m",tier="draft"} 900`, `foregate_acceptance_total{verdict="accepted"} 90`, `foregate_acceptance_total{verdict="rejected"} 10`,
		`llm_cache_requests_total{result="hit"} 90`, `llm_cache_requests_total{result="miss"} 9`,
		`llm_request_duration_seconds_bucket{stream="false",le="1"} 50`, `llm_request_duration_seconds_bucket{stream="false",le="2"} 60`, `llm_request_duration_seconds_count{stream="false"} 60`,
	}
	after := []string{
		`foregate_requests_total{code="200",route="m",tier="draft"} 5`, `foregate_acceptance_total{verdict="accepted"} 3`, `foregate_acceptance_total{verdict="rejected"} 1`,
		`llm_cache_requests_total{result="hit"} 3`, `llm_cache_requests_total{result="miss"} 1`,
		`llm_request_duration_seconds_bucket{stream="false",le="1"} 2`, `llm_request_duration_seconds_bucket{stream="false",le="2"} 4`, `llm_request_duration_seconds_count{stream="false"} 4`,
	}
	s := sampleOf(every(t, 10*time.Second, before, after), ReplicaState{})
	if s.Requests["draft"] != 0 || s.Acceptance != nil || s.CacheHitRatio != nil || s.Latency != nil {
		t.Errorf("rate %g, acceptance %v, hits %v, latency %v", s.Requests["draft"], s.Acceptance, s.CacheHitRatio, s.Latency)
	}
	later := sampleOf(every(t, 10*time.Second, after, []string{
		`foregate_requests_total{code="200",route="m",tier="draft"} 25`, `foregate_acceptance_total{verdict="accepted"} 6`, `foregate_acceptance_total{verdict="rejected"} 2`,
		`llm_request_duration_seconds_bucket{stream="false",le="1"} 2`, `llm_request_duration_seconds_bucket{stream="false",le="2"} 14`, `llm_request_duration_seconds_count{stream="false"} 14`,
	}), ReplicaState{})
	if later.Requests["draft"] != 2 || *later.Acceptance != 0.75 || later.Latency == nil || later.Latency.P50 != 1.5 {
		t.Errorf("after that it goes on: rate %g, acceptance %v, latency %v", later.Requests["draft"], *later.Acceptance, later.Latency)
	}
}
