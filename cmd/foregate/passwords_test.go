package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/identity"
)

// rewrite puts something else into a file.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsAndReplicasShowThePasswordsOfFiles(t *testing.T) {
	t.Setenv("FOREGATE_REDIS", "")
	m := miniredis.RunT(t)
	m.RequireUserAuth("foregate", "password-of-replicas")
	m.RequireUserAuth("operator", "password-of-operators")
	own, operators := secretFile(t, "password-of-replicas\n"), secretFile(t, "password-of-operators\n")
	text := minConfig + "redis:\n  url: redis://foregate@" + m.Addr() + "\n  settings_url: redis://operator@" + m.Addr() +
		"\n  password_file: " + own + "\n  settings_password_file: " + operators + "\n"
	file := configFile(t, text)
	if status, _, errs := call(t, "settings", "set", "-c", file, "shed.low=0.7"); status != 0 {
		t.Fatalf("settings set: %s", errs)
	}
	r := keeper(t, file)
	apptest.Eventually(t, "the replica shares", func() bool { return r.Fleet.Mode().String() == "shared" })
	if got := r.Settings.Snapshot().Global().Admission.Threshold[identity.Low]; got != 0.7 {
		t.Errorf("the replica reads shed.low %v", got)
	}
	if err := r.Options.Stores.Settings.Ping(t.Context()).Err(); err != nil {
		t.Errorf("who writes settings there: %v", err)
	}
	rewrite(t, operators, "")
	for _, command := range [][]string{{"check", file}, {"serve", "-c", file}, {"settings", "list", "-c", file}} {
		status, _, errs := call(t, command...)
		if status != 1 || !strings.Contains(errs, "redis.settings_password_file: has 0 characters; want 1 … 4096") || strings.Contains(errs, operators) {
			t.Errorf("%s: status %d: %s", command[0], status, errs)
		}
	}
}
