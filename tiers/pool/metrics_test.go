package pool

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pressure"
)

// shown returns the series of a backend, by name and reason.
func shown(t *testing.T, reg *prometheus.Registry, backend string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, of := f.GetName(), ""
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "backend":
					of = l.GetValue()
				case "reason":
					name += " " + l.GetValue()
				}
			}
			if of == backend {
				out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestSeriesShowTheBackendsAsTheyAreAtEachScrape(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	b := newBench(t, Options{Registerer: reg, Engine: dialect.VLLM})
	want := map[string]float64{
		"foregate_backend_up": 1, "foregate_backend_drained": 0, "foregate_backend_refuses_credentials": 0, "foregate_backend_engine_misfit": 0,
		"foregate_backend_suspect answers_nothing": 0, "foregate_backend_suspect stands_still": 0, "foregate_backend_requests_in_flight": 0,
		"foregate_prefix_expected_tokens_total": 0, "foregate_prefix_prompt_tokens_total": 0, "foregate_scrape_errors_total": 0,
	}
	check := func(what string) {
		t.Helper()
		if got := shown(t, reg, "a"); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("at the start")
	b.give(0, pressure.Reading{KVUsage: .5, PrefixHits: 3, PrefixQueries: 4})
	b.now = b.now.Add(time.Second)
	want["foregate_backend_kv_usage"], want["foregate_scrape_age_seconds"] = .5, 1
	want["foregate_backend_prefix_hit_tokens_total"], want["foregate_backend_prefix_query_tokens_total"] = 3, 4
	check("a reading")
	l := pick(t, b.Pool, Demand{PromptTokens: 7, Exclude: []string{"b", "c", "d"}})
	want["foregate_backend_requests_in_flight"], want["foregate_prefix_prompt_tokens_total"] = 1, 7
	l.ReportCredentials(ForRequests, b.Credentials(), &credentials.Refusal{Status: 401})
	b.ReceiveDrains(map[string]string{"a": "x"})
	b.identified(b.first(), dialect.Finding{Kind: dialect.SGLang}, 0)
	want["foregate_backend_drained"], want["foregate_backend_refuses_credentials"], want["foregate_backend_engine_misfit"] = 1, 1, 1
	check("all that can be wrong")
	b.silent(4, 0)
	want["foregate_backend_up"], want["foregate_backend_refuses_credentials"], want["foregate_backend_suspect answers_nothing"] = 0, 0, 1
	want["foregate_scrape_age_seconds"] = 3
	check("down")
	delete(want, "foregate_backend_kv_usage")
	b.now = b.now.Add(pressure.UnknownAfter)
	want["foregate_scrape_age_seconds"] = 13
	check("old")

	// Of two pools with one name the newer shows the backend.
	newer := newBench(t, Options{Registerer: reg, Backends: []string{"http://a"}})
	pick(t, newer.Pool, Demand{PromptTokens: 5})
	if got := shown(t, reg, "a"); got["foregate_backend_up"] != 1 || got["foregate_backend_requests_in_flight"] != 1 || got["foregate_prefix_prompt_tokens_total"] != 5 {
		t.Errorf("with a newer pool: %v", got)
	}
	if b.ForgetMetrics(); len(shown(t, reg, "b")) > 0 {
		t.Errorf("without the older one: %v", shown(t, reg, "b"))
	}
}
