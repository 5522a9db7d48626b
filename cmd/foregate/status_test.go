package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
)

// standing is a replica in whose status these tests look for something.
func standing() gateway.Status {
	return gateway.Status{
		Version: "v1.4.0", Ready: "yes", InFlight: 12, Pools: []gateway.PoolView{{Pool: "small"}},
		Settings: gateway.SettingsView{Switches: []string{"shed.low is 0"}},
	}
}

func TestTheStatusCommandAsksOneReplica(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || r.URL.Path != "/admin/status":
			http.NotFound(w, r)
		default:
			_ = json.NewEncoder(w).Encode(standing())
		}
	}))
	defer srv.Close()
	status, out, errs := call(t, "status", "--admin", strings.TrimPrefix(srv.URL, "http://"))
	if status != 0 || errs != "" || !strings.Contains(out, "KILL SWITCH: shed.low is 0") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	t.Setenv("FOREGATE_ADMIN", srv.URL+"/")
	status, out, _ = call(t, "status", "--json")
	var s gateway.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != 0 || s.InFlight != 12 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
}

func TestAReplicaThatCannotBeAskedIsStatusOneAndNoPasswordIsShown(t *testing.T) {
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/half") {
			_, _ = io.WriteString(w, `{"version":`)
			return
		}
		http.NotFound(w, r)
	}))
	defer odd.Close()
	for admin, want := range map[string]string{
		"http://127.0.0.1:1": "the replica cannot be reached: ",
		odd.URL:              "status 404: is that the admin listener of a replica?",
		odd.URL + "/half":    "unexpected end of JSON input",
		"http://[":           "--admin: ",
	} {
		for _, scheme := range []string{"http://", ""} {
			admin := strings.Replace(admin, "http://", scheme+"me:s3cret@", 1)
			if status, out, errs := call(t, "status", "--admin", admin); status != 1 || out != "" || !strings.Contains(errs, want) || strings.Contains(errs, "s3cret") {
				t.Errorf("%s: status %d, %q, %q", admin, status, out, errs)
			}
		}
	}
}

func TestAPurgeIsDoneByAReplicaAndAnEmptyNameIsRefused(t *testing.T) {
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		_ = json.NewEncoder(w).Encode(gateway.PurgeResult{Purged: "tenant acme"})
	}))
	defer srv.Close()
	status, out, errs := call(t, "cache", "purge", "--admin", srv.URL, "--tenant", "acme")
	if status != 0 || out != "purged tenant acme: no replica serves these answers after a second\n" || errs != "" || asked != "POST /admin/cache/purge?tenant=acme" {
		t.Errorf("status %d: %s%s, asked %s", status, out, errs, asked)
	}
	asked = ""
	for _, flag := range []string{"--tenant=", "--route="} { // a variable that was not set
		status, out, errs := call(t, "cache", "purge", "--admin", srv.URL, flag)
		if status != 1 || out != "" || !strings.Contains(errs, "is empty; leave it out to purge everything") || asked != "" {
			t.Errorf("%s: status %d: %s%s, asked %s", flag, status, out, errs, asked)
		}
	}
}
