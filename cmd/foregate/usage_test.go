package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/ledger"
)

func TestTheUsageCommandPrintsATableOrJSONOrCSV(t *testing.T) {
	var query string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		if r.Method != http.MethodGet || r.URL.Path != "/admin/usage" {
			http.NotFound(w, r)
			return
		}
		report := ledger.Report{By: []ledger.Dimension{ledger.ByTenant}, Span: ledger.Span{Scope: ledger.ScopeFleet, From: "2026-11-01", To: "2026-11-23"}, Rows: []ledger.Row{
			{Tenant: "acme", Counts: ledger.Counts{Requests: 812, OK: 800}, USD: 1_234_567_891},
		}}
		if r.URL.Query().Get("format") == "csv" {
			_, _ = io.WriteString(w, "tenant,requests\r\nacme,812,800,\r\n")
			return
		}
		_ = json.NewEncoder(w).Encode(report)
	}))
	defer srv.Close()
	t.Setenv("FOREGATE_ADMIN", "")
	for _, c := range []struct{ args, query, want string }{
		{"", "", "acme    812       12"},
		{"--from 2026-11-01 --to 2026-11-23 --by route,day", "by=route%2Cday&from=2026-11-01&to=2026-11-23", "2026-11-01 … 2026-11-23 (UTC), of all replicas"},
		{"--json", "", `"usd": 1.234567891`},
		{"--csv", "format=csv", "\r\nacme,812,800,"},
	} {
		status, out, errs := call(t, append([]string{"usage", "--admin", srv.URL}, strings.Fields(c.args)...)...)
		if status != 0 || errs != "" || !strings.Contains(out, c.want) || query != c.query {
			t.Errorf("%s: status %d, query %s: %s%s", c.args, status, query, out, errs)
		}
	}
	if status, _, errs := call(t, "usage", "--csv", "--json"); status != 2 || errs == "" {
		t.Errorf("both forms: status %d: %s", status, errs)
	}
	if status, _, errs := call(t, "usage", "--admin", "http://me:s3cret@127.0.0.1:1"); status != 1 || strings.Contains(errs, "s3cret") || errs == "" {
		t.Errorf("status %d: %s", status, errs)
	}
}
