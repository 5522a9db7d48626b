package display

import (
	"bytes"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/usage"
)

func TestUsageIsOneLinePerGroupAndATotal(t *testing.T) {
	row := func(tenant, day string, requests, ok int64, usd, saved usage.Nanos) usage.Row {
		return usage.Row{Tenant: tenant, Day: day, USD: usd, Counts: usage.Counts{
			Requests: requests, OK: ok, Cached: 2, Coalesced: 1, Prompt: 1000 * requests, Completion: 500 * requests, DraftTokens: 300 * requests, DraftsSaved: saved, CacheSaved: 2_500_000,
		}}
	}
	r := usage.Report{From: "2026-11-01", To: "2026-11-23", By: []usage.Dimension{usage.ByTenant, usage.ByDay}, Scope: usage.ScopeFleet, Rows: []usage.Row{
		row("acme", "2026-11-22", 812, 800, 1_234_000_000, 4_000_000_000), row("acme", "2026-11-23", 7, 7, 9_000, -120_000_000), row(usage.Others, "2026-11-23", 40, 0, 0, 0),
	}, Total: row("", "", 859, 807, 1_234_009_000, 3_880_000_000)}
	var b bytes.Buffer
	Usage(&b, &r)
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r.Scope, r.Since, r.Damaged, r.By, r.Rows = usage.ScopeReplica, &noon, 2, []usage.Dimension{usage.ByTenant}, nil
	Usage(&b, &r)
	golden(t, "testdata/usage.txt", b.String())
}
