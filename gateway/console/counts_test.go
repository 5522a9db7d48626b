package console

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// noon is when the first counts of tests are taken.
var noon = time.Unix(1_800_000_000, 0)

// families reads metrics as Prometheus would.
func families(tb testing.TB, text string) []*dto.MetricFamily {
	tb.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		tb.Fatalf("%v in:\n%s", err, text)
	}
	return slices.Collect(maps.Values(byName))
}

// counted is what metrics stand at, so long after noon. Types are declared for names that end
// as counters do; all else is a gauge.
func counted(tb testing.TB, after time.Duration, lines ...string) counts {
	tb.Helper()
	var text strings.Builder
	said := map[string]bool{}
	for _, line := range lines {
		name := line[:strings.IndexAny(line, "{ ")]
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		if base, is := strings.CutSuffix(name, "_bucket"); is {
			name, kind = base, "histogram"
		}
		name = strings.TrimSuffix(name, "_count")
		if !said[name] {
			said[name] = true
			fmt.Fprintf(&text, "# TYPE %s %s\n", name, kind)
		}
		fmt.Fprintln(&text, line)
	}
	return count(families(tb, text.String()), noon.Add(after))
}

func TestSeveralReplicasInOneRegistryAreAddedUp(t *testing.T) {
	c := counted(t, 0,
		`foregate_requests_total{replica="1",code="200",route="m",tier="draft"} 3`,
		`foregate_requests_total{replica="2",code="200",route="m",tier="draft"} 4`,
		`foregate_requests_in_flight{replica="1"} 1`, `foregate_requests_in_flight{replica="2"} 2`,
		`foregate_backend_kv_usage{replica="1",pool="p",backend="b"} 0.25`, // older than what the other has read
		`foregate_backend_kv_usage{replica="2",pool="p",backend="b"} 0.75`,
		`foregate_backend_rent_usd_per_hour{replica="1",pool="p",backend="b"} 2.5`, `foregate_backend_rent_usd_per_hour{replica="2",pool="p",backend="b"} 2.5`,
		`foregate_breaker_state{replica="1",pool="p",backend="b"} 2`, `foregate_breaker_state{replica="2",pool="p",backend="b"} 0`,
		`foregate_shedding{replica="1",pool="p",priority="low"} 1`, `foregate_shedding{replica="2",pool="p",priority="low"} 1`,
		`foregate_shedding{replica="1",pool="p",priority="high"} 0`,
		`foregate_redis_mode{replica="1",mode="local"} 1`, `foregate_redis_mode{replica="1",mode="shared"} 0`,
		`foregate_redis_mode{replica="2",mode="shared"} 1`,
		`llm_request_duration_seconds_bucket{replica="1",stream="false",le="1"} 2`, `llm_request_duration_seconds_count{replica="1",stream="false"} 2`,
		`llm_request_duration_seconds_bucket{replica="2",stream="true",le="1"} 50`, `llm_request_duration_seconds_count{replica="2",stream="true"} 50`,
		`llm_request_duration_seconds_bucket{replica="2",stream="false",le="1"} 1`, `llm_request_duration_seconds_count{replica="2",stream="false"} 5`,
	)
	want := counts{
		at: noon, redisLevel: "local", inFlight: 3, covered: 2, requests: map[string]float64{"draft": 7}, shed: map[string]float64{}, classes: map[[2]string]*classCount{},
		kv: map[string]float64{"p/b": 0.75}, rents: map[string]float64{"p/b": 2.5}, breakers: map[string]float64{"p/b": 2}, shedding: []string{"p/low"},
		latency: histogram{ends: []float64{1, math.Inf(1)}, below: []float64{3, 7}},
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(counts{}, histogram{})); diff != "" {
		t.Error(diff)
	}
}

func TestEachRequestIsCountedByWhatAnsweredIt(t *testing.T) {
	for labels, want := range map[string]string{
		`code="200",route="m",tier="draft"`:  "draft",
		`code="200",route="m",tier="mixed"`:  "mixed",
		`code="200",route="m",tier="target"`: "target",
		`code="200",route="m",tier="cache"`:  "cache",
		`code="504",route="m",tier="cache"`:  "refused",
		`code="501",route="m",tier=""`:       "refused",
		`code="200",route="m",tier=""`:       "other",
		`code="200",route="",tier=""`:        "", // a probe, or the list of models
		`code="503",route="m",tier=""`:       "refused",
		`code="429",route="m",tier=""`:       "refused",
		`code="404",route="",tier=""`:        "refused",
		`code="499",route="m",tier="draft"`:  "", // the client left
		`code="502",route="m",tier="target"`: "failed",
		`code="504",route="m",tier=""`:       "failed",
		`code="",route="m",tier="draft"`:     "failed",
	} {
		got := counted(t, 0, `foregate_requests_total{`+labels+`} 1`).requests
		if len(got) > 1 || (want != "") != (len(got) == 1) || (want != "" && got[want] != 1) {
			t.Errorf("{%s} is %v, want %q", labels, got, want)
		}
	}
}

func TestNumbersThatAreNoneAreLeftOut(t *testing.T) {
	for _, n := range []string{"NaN", "+Inf", "-Inf"} {
		c := counted(t, 0, `foregate_cost_usd_total{part="draft"} `+n, `foregate_cost_usd_total{part="target"} 2`,
			`foregate_requests_in_flight `+n, `foregate_backend_kv_usage{pool="p",backend="b"} `+n)
		if c.spent != 2 || c.inFlight != 0 || len(c.kv) != 0 {
			t.Errorf("with %s: spent %g, in flight %g, kv %v", n, c.spent, c.inFlight, c.kv)
		}
	}
}

func TestOnlyACertifiedBoundIsShown(t *testing.T) {
	uncertified := counted(t, 0, `foregate_risk_upper_bound 1`, `foregate_risk_max_disagreement 0.02`)
	if s := sampleOf([]counts{uncertified}, ReplicaState{}); s.DisagreementBound != nil || s.MaxDisagreement != nil {
		t.Errorf("nothing is served on a proof, but the bound is %v of %v", s.DisagreementBound, s.MaxDisagreement)
	}
	certified := counted(t, 0,
		`foregate_risk_phase{route="a",phase="certified"} 1`, `foregate_risk_upper_bound{route="a"} 0.012`, `foregate_risk_max_disagreement{route="a"} 0.02`,
		`foregate_risk_phase{route="b",phase="certified"} 1`, `foregate_risk_upper_bound{route="b"} 0.015`, `foregate_risk_max_disagreement{route="b"} 0.03`,
		`foregate_risk_phase{route="c",phase="infeasible"} 1`, `foregate_risk_upper_bound{route="c"} 0.6`, `foregate_risk_max_disagreement{route="c"} 0.3`)
	s := sampleOf([]counts{certified}, ReplicaState{})
	if s.DisagreementBound == nil || *s.DisagreementBound != 0.012 || *s.MaxDisagreement != 0.02 {
		t.Errorf("the worst of what is served on a proof is 0.012 of 0.02, got %v of %v", s.DisagreementBound, s.MaxDisagreement)
	}
}
