package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/ledger"
)

// answering is an admin listener that gives one answer, and notes the last request.
type answering struct {
	*httptest.Server
	asked string // method and URL
}

func startAnswering(t *testing.T, status int, answer any) *answering {
	t.Helper()
	t.Setenv("FOREGATE_ADMIN", "")
	a := &answering{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked = r.Method + " " + r.URL.String()
		w.WriteHeader(status)
		if text, isText := answer.(string); isText {
			_, _ = io.WriteString(w, text)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(a.Close)
	return a
}

func TestReadyTellsByItsExitStatus(t *testing.T) {
	for _, c := range []struct {
		status    int
		body      string
		want      int
		out, errs string
	}{
		{http.StatusOK, "ok\nredis: shared\n", 0, "ok redis: shared\n", ""},
		{http.StatusServiceUnavailable, "draining\n", 1, "", "not ready: status 503: draining"},
		{http.StatusNotFound, "no such page\n", 1, "", "not ready: status 404"}, // some other server
	} {
		s := startAnswering(t, c.status, c.body)
		status, out, errs := call(t, "ready", "--admin", s.URL)
		if status != c.want || out != c.out || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") || s.asked != "GET /readyz" {
			t.Errorf("%d: status %d, %q, %q, asked %s", c.status, status, out, errs, s.asked)
		}
	}
}

func TestTheStatusCommandAsksOneReplica(t *testing.T) {
	srv := startAnswering(t, http.StatusOK, gateway.Status{Version: "v1.4.0", Ready: "yes", InFlight: 12, Settings: gateway.SettingsView{Switches: []string{"shed.low is 0"}}})
	status, out, errs := call(t, "status", "--admin", strings.TrimPrefix(srv.URL, "http://"))
	if status != 0 || errs != "" || !strings.Contains(out, "KILL SWITCH: shed.low is 0") || srv.asked != "GET /admin/status" {
		t.Errorf("status %d: %s%s, asked %s", status, out, errs, srv.asked)
	}
	t.Setenv("FOREGATE_ADMIN", srv.URL+"/")
	status, out, _ = call(t, "status", "--json")
	var s gateway.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != 0 || s.InFlight != 12 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
}

func TestAReplicaThatCannotBeAskedIsStatusOneAndNoPasswordIsShown(t *testing.T) {
	odd, half := startAnswering(t, http.StatusNotFound, "no"), startAnswering(t, http.StatusOK, `{"version":`)
	for admin, want := range map[string]string{
		"http://127.0.0.1:1": "the replica cannot be reached: ",
		odd.URL:              "status 404: is that the admin listener of a replica?",
		half.URL:             "unexpected end of JSON input",
		"http://[":           "--admin: ",
	} {
		for _, scheme := range []string{"http://", ""} {
			for _, command := range []string{"status", "usage"} {
				admin := strings.Replace(admin, "http://", scheme+"me:s3cret@", 1)
				if status, out, errs := call(t, command, "--admin", admin); status != 1 || out != "" || !strings.Contains(errs, want) || strings.Contains(errs, "s3cret") {
					t.Errorf("%s %s: status %d, %q, %q", command, admin, status, out, errs)
				}
			}
		}
	}
}

func TestAPurgeIsDoneByAReplicaAndAnEmptyNameIsRefused(t *testing.T) {
	srv := startAnswering(t, http.StatusOK, gateway.PurgeResult{Purged: "tenant acme"})
	status, out, errs := call(t, "cache", "purge", "--admin", srv.URL, "--tenant", "acme")
	if status != 0 || out != "purged tenant acme: no replica serves these answers after a second\n" || errs != "" || srv.asked != "POST /admin/cache/purge?tenant=acme" {
		t.Errorf("status %d: %s%s, asked %s", status, out, errs, srv.asked)
	}
	srv.asked = ""
	for flag, want := range map[string]string{
		"--tenant=": "is empty; --all --yes purges everything", "--route=": "is empty; --all --yes purges everything", // a variable that was not set
		"--all": "give --all --yes", "--yes": "missing flags", "--route=m --tenant=acme": "can't be used together",
	} {
		status, out, errs := call(t, append([]string{"cache", "purge", "--admin", srv.URL}, strings.Fields(flag)...)...)
		if status == 0 || out != "" || !strings.Contains(errs, want) || srv.asked != "" {
			t.Errorf("%s: status %d: %s%s, asked %s", flag, status, out, errs, srv.asked)
		}
	}
	if status, _, errs := call(t, "cache", "purge", "--admin", srv.URL, "--all", "--yes"); status != 0 || srv.asked != "POST /admin/cache/purge" {
		t.Errorf("all: status %d: %s, asked %s", status, errs, srv.asked)
	}
}

func TestABackendIsDrainedAndUndrainedByAReplica(t *testing.T) {
	for _, c := range []struct {
		args, asked, want string
		answer            gateway.ActionResult
	}{
		{"drain 10.0.0.7-8000 --for 30m --because=rolled", "drain?backend=10.0.0.7-8000&for=30m0s&why=rolled", "10.0.0.7-8000 of big gets no new requests for 30m0s\n",
			gateway.ActionResult{Drained: true, Seconds: 1800}},
		{"drain 10.0.0.7:8000 --pool big", "drain?backend=10.0.0.7%3A8000&pool=big", "10.0.0.7-8000 of big gets no new requests\nNo other backend is up.\n",
			gateway.ActionResult{Drained: true, Message: "No other backend is up."}},
		{"undrain 10.0.0.7-8000", "undrain?backend=10.0.0.7-8000", "10.0.0.7-8000 of big gets requests again\n", gateway.ActionResult{}},
	} {
		c.answer.Backend, c.answer.Pool = "10.0.0.7-8000", "big"
		srv := startAnswering(t, http.StatusOK, c.answer)
		status, out, errs := call(t, append(strings.Fields(c.args), "--admin", srv.URL)...)
		if status != 0 || out != c.want || srv.asked != "POST /admin/"+c.asked {
			t.Errorf("%s: status %d, asked %s: %s%s", c.args, status, srv.asked, out, errs)
		}
	}
}

func TestTheUsageCommandPrintsATableOrJSONOrCSV(t *testing.T) {
	report := ledger.Report{By: []ledger.Dimension{ledger.ByTenant}, Span: ledger.Span{Scope: ledger.ScopeFleet, From: "2026-11-01", To: "2026-11-23"}, Rows: []ledger.Row{
		{Tenant: "acme", Counts: ledger.Counts{Requests: 812, OK: 800}, USD: 1_234_567_891},
	}}
	for _, c := range []struct {
		args, query, want string
		answer            any
	}{
		{"", "", "acme    812       12", report},
		{"--from 2026-11-01 --to 2026-11-23 --by route,day", "?by=route%2Cday&from=2026-11-01&to=2026-11-23", "2026-11-01 … 2026-11-23 (UTC), of all replicas", report},
		{"--json", "", `"usd": 1.234567891`, report},
		{"--csv", "?format=csv", "\r\nacme,812,800,", "tenant,requests\r\nacme,812,800,\r\n"},
	} {
		srv := startAnswering(t, http.StatusOK, c.answer)
		status, out, errs := call(t, append([]string{"usage", "--admin", srv.URL}, strings.Fields(c.args)...)...)
		if status != 0 || errs != "" || !strings.Contains(out, c.want) || srv.asked != "GET /admin/usage"+c.query {
			t.Errorf("%s: status %d, asked %s: %s%s", c.args, status, srv.asked, out, errs)
		}
	}
	if status, _, errs := call(t, "usage", "--csv", "--json"); status != 2 || errs == "" {
		t.Errorf("both forms: status %d: %s", status, errs)
	}
}
