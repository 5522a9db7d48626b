package display

import (
	"bytes"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/ledger"

	"github.com/foregate/foregate/internal/golden"
)

func TestUsageIsOneLinePerGroupAndATotal(t *testing.T) {
	row := func(tenant, day string, requests, ok int64, usd, saved ledger.Nanos) ledger.Row {
		return ledger.Row{Tenant: tenant, Day: day, USD: usd, Counts: ledger.Counts{
			Requests: requests, OK: ok, Cached: 2, Coalesced: 1, Prompt: 1000 * requests, Completion: 500 * requests, DraftTokens: 300 * requests, DraftsSaved: saved, CacheSaved: 2_500_000,
		}}
	}
	r := ledger.Report{Span: ledger.Span{From: "2026-11-01", To: "2026-11-23", Scope: ledger.ScopeFleet}, By: []ledger.Dimension{ledger.ByTenant, ledger.ByDay}, Rows: []ledger.Row{
		row("acme", "2026-11-22", 812, 800, 1_234_000_000, 4_000_000_000), row("acme", "2026-11-23", 7, 7, 9_000, -120_000_000), row(ledger.Others, "2026-11-23", 40, 0, 0, 0),
	}, Total: row("", "", 859, 807, 1_234_009_000, 3_880_000_000)}
	var b bytes.Buffer
	Usage(&b, &r)
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r.Scope, r.Since, r.Damaged, r.By, r.Rows = ledger.ScopeReplica, &noon, 2, []ledger.Dimension{ledger.ByTenant}, nil
	Usage(&b, &r)
	golden.Check(t, "testdata/usage.txt", b.String())
}
