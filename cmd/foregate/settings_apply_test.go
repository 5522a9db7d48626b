package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
)

func TestAFileOfSettingsIsAppliedOnceAndIsTheWholeOfThem(t *testing.T) {
	t.Setenv("FOREGATE_REDIS", "redis://"+redistest.Start(t).Addr+"/0")
	srv := startAnswering(t, http.StatusOK, gateway.Status{Routes: []gateway.RouteState{{Route: "llama-3"}}})
	file := apptest.File(t, "settings", "# by Git\nshed.low = 0.7  # batch\n\nspeculation.mode@llama-3=off\n")
	run := func(want string, status int, args ...string) {
		t.Helper()
		got, out, errs := call(t, append([]string{"settings"}, args...)...)
		if all := out + errs; got != status || !strings.Contains(all, want) {
			t.Errorf("%v: status %d: %s\nwant %d, %s", args, got, all, status, want)
		}
	}
	apply := []string{"apply", "-f", file, "--as", "git", "--because=commit 1", "--admin", srv.URL}
	run("version 1:\n  shed.low", 0, "set", "shed.low=0.75")
	run("version 2:\n  retry.max_retries", 0, "set", "retry.max_retries=1")
	run("would change:\n  retry.max_retries", 0, append(apply, "--dry-run")...)
	run("shed.low                  0.75     → 0.7\n", 0, apply...)
	run("nothing to change", 0, apply...)
	run(" git: commit 1", 0, "log", "--limit=1")
	run("version 4:", 0, "rollback", "2")

	for text, want := range map[string]string{
		"# nothing\n":           "has no setting",
		"shed.low\n":            "line 1: \"shed.low\": want NAME=VALUE",
		"a.b=1\n#\na.b=2\n":     "line 3: a.b is given twice",
		"shed.low@lama-3=0.5\n": "lama-3",
		"shed.lo=0.5\n":         "shed.lo",
		"shed.low=2\n":          "shed.low",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(want, 1, apply...)
	}
	run("version 4 ", 0, "log", "--limit=1") // nothing of that was written
	run("no such file", 1, "apply", "-f", file+"x")
}

func TestASettingOfARouteThatTheReplicaDoesNotHaveIsRefused(t *testing.T) {
	t.Setenv("FOREGATE_REDIS", "redis://"+redistest.Start(t).Addr+"/0")
	srv := startAnswering(t, http.StatusOK, gateway.Status{Routes: []gateway.RouteState{{Route: "llama-3"}}})
	status, _, errs := call(t, "settings", "set", "shed.low@lama-3=0.5", "--admin", srv.URL)
	if status != 1 || !strings.Contains(errs, "shed.low@lama-3: ") || !strings.HasSuffix(errs, "nothing was changed\n") || srv.asked != "GET /admin/status" {
		t.Errorf("status %d, asked %s: %s", status, srv.asked, errs)
	}
	if status, _, errs := call(t, "settings", "set", "shed.low@llama-3=0.5", "--admin", srv.URL); status != 0 || errs != "" {
		t.Errorf("a route that is there: status %d: %s", status, errs)
	}
	srv.Close()
	status, _, errs = call(t, "settings", "set", "shed.low@lama-3=0.5", "--admin", srv.URL)
	if status != 0 || !strings.HasPrefix(errs, "note: it is not known which routes there are") {
		t.Errorf("without a replica: status %d: %s", status, errs)
	}
}
