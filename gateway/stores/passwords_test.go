package stores

import (
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
	_, files, err := read(config.Redis{URL: config.Endpoint{Kind: config.KindSingle, Network: "tcp", Addrs: []string{m.Addr()}, Username: "foregate"}, PasswordFile: file})
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
	file := writeFile(t, "watch")
	_, files, err := read(config.Redis{URL: config.Endpoint{Kind: config.KindSentinel, Addrs: []string{"127.0.0.1:1"}, Master: "fg"}, SentinelPasswordFile: file})
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

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
