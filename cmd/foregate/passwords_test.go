package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/redis/connect"
)

// rewrite puts something else into a file.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewConnectionsShowThePasswordThatTheFileHoldsNowAndOldOnesStay(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("foregate", "first-password")
	file := secretFile(t, "first-password\n")
	files, err := passwordsOf(config.Redis{URL: "redis://foregate@" + m.Addr(), PasswordFile: file})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := config.ParseRedis("redis://foregate@" + m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ep.PasswordFile = config.SecretFile{Setting: "redis.password_file", Path: file}
	o, err := files.options(ep)
	if err != nil {
		t.Fatal(err)
	}
	c := connect.New(connect.Background(o)).(*redis.Client)
	defer func() { _ = c.Close() }()
	old := c.Conn()
	defer func() { _ = old.Close() }()
	if err := old.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("with the first password: %v", err)
	}
	m.RequireUserAuth("foregate", "second-password")
	fresh := func() error {
		conn := connect.New(connect.Background(o))
		defer func() { _ = conn.Close() }()
		return conn.Ping(t.Context()).Err()
	}
	if err := fresh(); err == nil || strings.Contains(err.Error(), "password\"") {
		t.Errorf("before the file has changed: %v", err)
	}
	if err := files.files()[0].Apply([][]byte{[]byte("second-password\n")}); err != nil {
		t.Fatal(err)
	}
	if err := fresh(); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	if err := old.Ping(t.Context()).Err(); err != nil {
		t.Errorf("an old connection: %v", err)
	}
	if err := files.files()[0].Apply([][]byte{[]byte("two words\n")}); err == nil || strings.Contains(err.Error(), "words") {
		t.Errorf("a line that is no password: %v", err)
	}
	if err := fresh(); err != nil {
		t.Errorf("the last good password is not shown: %v", err)
	}
}

func TestAnotherPasswordAtSentinelsWantsARestart(t *testing.T) {
	file := secretFile(t, "watch")
	files, err := passwordsOf(config.Redis{URL: "redis+sentinel://foregate@127.0.0.1:1/fg", SentinelPasswordFile: file})
	if err != nil {
		t.Fatal(err)
	}
	all := files.files()
	if len(all) != 1 || all[0].Setting != "redis.sentinel_password_file" {
		t.Fatalf("watched are %+v", all)
	}
	if err := all[0].Apply([][]byte{[]byte("watch\n")}); err != nil {
		t.Errorf("the same password: %v", err)
	}
	if err := all[0].Apply([][]byte{[]byte("watch2")}); err == nil || !strings.Contains(err.Error(), "after a restart only") {
		t.Errorf("another password: %v", err)
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
	eventually(t, "the replica shares", func() bool { return r.Fleet.Mode().String() == "shared" })
	if got := r.Settings.Snapshot().Global().Admission.Low; got != 0.7 {
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
