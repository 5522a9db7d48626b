package tiers

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/openai"
)

func TestAHundredThousandPromptsHaveTheSeriesOfTheLargestApplications(t *testing.T) {
	m := newApplicationMetrics()
	for i := range 100_000 {
		for _, name := range []string{fmt.Sprint("acme/once", i), fmt.Sprint("acme/often", i%25), "acme/most"} {
			r := &Request{Arrival: Arrival{Body: &openai.Request{Model: "m"}}, Receipt: &Receipt{}, ApplicationName: name}
			m.count(r)
			m.countAudit(r, .05, true)
		}
	}
	if n := testutil.CollectAndCount(m.requests); n > maxLabelled+1 || testutil.CollectAndCount(m.audited) > maxLabelled+1 || len(m.routes["m"].seen.Counts) > 64 {
		t.Errorf("%d series, %d applications are counted", n, len(m.routes["m"].seen.Counts))
	}
	if n, all := testutil.ToFloat64(m.requests.WithLabelValues("m", "acme/most")), testutil.ToFloat64(m.audited.WithLabelValues("m", "acme/most", "yes")); n < 99_000 || all < 20*99_000 {
		t.Errorf("the largest has %v requests, and audits that stand for %v", n, all)
	}
}
