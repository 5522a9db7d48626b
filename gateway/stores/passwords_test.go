package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/redis/connect"
)

func TestNewConnectionsShowThePasswordThatTheFileHoldsNowAndOldOnesStay(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("foregate", "first-password")
	file := writeFile(t, "first-password\n")
	r := config.Redis{PasswordFile: file}
	if err := r.URL.UnmarshalText([]byte("redis://foregate@" + m.Addr())); err != nil {
		t.Fatal(err)
	}
	files, err := readPasswords(r)
	if err != nil {
		t.Fatal(err)
	}
	opener := opener{Redis: r, passwords: files}
	o, err := opener.options(r.Endpoint(), config.PasswordFile)
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
	file := writeFile(t, "watch")
	files, err := readPasswords(config.Redis{SentinelPasswordFile: file})
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

func TestWhatStandsBesideAURLGoesWhereItIsRead(t *testing.T) {
	pw, op, sp := writeFile(t, "pw"), writeFile(t, "op"), writeFile(t, "sp")
	r := config.Redis{ServerName: "name", SentinelUsername: "su", PasswordFile: pw, SettingsPasswordFile: op, SentinelPasswordFile: sp}
	for url, text := range map[*config.Endpoint]string{&r.URL: "rediss://u@h", &r.CacheURL: "redis+sentinel://a/m", &r.SettingsURL: "redis://o@h"} {
		if err := url.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := readPasswords(r)
	if err != nil {
		t.Fatal(err)
	}
	told := func(ep config.Endpoint, passwordFile string) string {
		opener := opener{Redis: r, passwords: files}
		o, err := opener.options(ep, passwordFile)
		if err != nil {
			t.Fatal(err)
		}
		user, password := o.Credentials()
		return fmt.Sprintln(o.Addrs, o.Master, user, password, o.SentinelUsername, o.SentinelPassword, o.TLS != nil && o.TLS.ServerName == "name")
	}
	r2 := r
	r2.CacheURL = config.Endpoint{}
	for got, want := range map[string]string{
		told(r.Endpoint(), config.PasswordFile):       "[h:6379]  u pw   true\n",
		told(r.CacheEndpoint(), config.PasswordFile):  "[a:26379] m  pw su sp false\n",
		told(r.SettingsEndpoint()):                    "[h:6379]  o op   false\n",
		told(r2.CacheEndpoint(), config.PasswordFile): "[h:6379]  u pw   true\n",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAnOperatorNeedsOnlyItsOwnPassword(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("operator", "op")
	r := config.Redis{PasswordFile: filepath.Join(t.TempDir(), "of-the-replicas"), SettingsPasswordFile: writeFile(t, "op")}
	for url, user := range map[*config.Endpoint]string{&r.URL: "foregate", &r.SettingsURL: "operator"} {
		if err := url.UnmarshalText([]byte("redis://" + user + "@" + m.Addr())); err != nil {
			t.Fatal(err)
		}
	}
	c, err := OpenForOperator(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
