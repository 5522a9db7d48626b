package pool

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestWhatEnginesCountIsShownAsCountersUntilTheirBackendGoes(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := newMetrics(reg)
	const hits, queries = "foregate_backend_prefix_hit_tokens_total", "foregate_backend_prefix_query_tokens_total"
	m.reading("p", "a", pressure.Reading{PrefixHits: 7, PrefixQueries: 9})
	m.reading("p", "b", pressure.Reading{PrefixHits: 5, PrefixQueries: 6})
	m.reading("p", "a", pressure.Reading{PrefixHits: 1, PrefixQueries: 2}) // it began anew
	want := `# HELP foregate_backend_prefix_hit_tokens_total Prompt tokens found in the prefix cache since the backend's start, by its own count.
# TYPE foregate_backend_prefix_hit_tokens_total counter
foregate_backend_prefix_hit_tokens_total{backend="a",pool="p"} 1
foregate_backend_prefix_hit_tokens_total{backend="b",pool="p"} 5
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), hits); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	m.forget("p", "a")
	if n, err := testutil.GatherAndCount(reg, hits, queries); err != nil || n != 2 {
		t.Errorf("%d series are left (%v), want the 2 of b", n, err)
	}
	if other := newMetrics(reg); other.hits != m.hits {
		t.Error("pools of one registry do not share a counter")
	}
}
