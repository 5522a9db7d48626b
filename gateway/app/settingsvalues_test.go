package app_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/redistest"
)

// TestABadValueOfAnySettingIsInTheMetricTheLogAndTheStatus sets all settings at once to
// what none may be, ten times.
func TestABadValueOfAnySettingIsInTheMetricTheLogAndTheStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	client := redistest.Start(t).Client
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: m, backends: [%q]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 2s}
`, client.Options().Addr, newRecorder(t).url, routeUsual))
	before := p.Settings(t, routeUsual)
	var names []string
	for _, s := range settings.Specs() {
		names = append(names, s.Name)
	}
	for _, bad := range []string{"", "NaN", "-", "1e309", `{"value":1}`, "\xff\xfe", strings.Repeat("7", 5000), "0x10", "1 0", "null"} {
		all := map[string]string{"a.setting.of.tomorrow": bad}
		for _, name := range names {
			all[name] = bad
		}
		if err := client.HSet(t.Context(), settings.Key, all).Err(); err != nil {
			t.Fatal(err)
		}
		shown := bad
		switch {
		case len(bad) > 4096:
			shown = "…"
		case bad == "\xff\xfe":
			shown = "??"
		}
		what := fmt.Sprintf("the status tells of %q", shown)
		apptest.Within(t, 10*time.Second, what, func() bool {
			s := p.Status(t).Settings
			var refused []string
			for _, r := range s.Rejected {
				if r.Value == shown && r.Reason != "" {
					refused = append(refused, r.Name)
				}
			}
			return slices.Equal(refused, names) && len(s.Unknown) == 1 && len(s.Changed) == 0
		})
		page := p.Metrics(t)
		for _, name := range names {
			if !strings.Contains(page, fmt.Sprintf("foregate_settings_rejected{name=%q} 1\n", name)) {
				t.Errorf("%s = %q is not in the metric", name, shown)
			}
		}
		if !strings.Contains(page, `foregate_settings_unknown{name="a.setting.of.tomorrow"} 1`) {
			t.Error("the unknown setting is not in the metric")
		}
		if after := p.Settings(t, routeUsual); !slices.Equal(before, after) {
			t.Errorf("%q changed what is in force: %v", shown, after)
		}
	}
	apptest.Eventually(t, "the log tells each time of the fields, and of more than it names", func() bool {
		return strings.Count(p.Log.String(), "further fields: setting refused") == 10
	})
}

// noAnswer is the address of a listener whose backlog is full, so that no connection to it
// comes up.
func noAnswer(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("this system's backlog is never full")
	return ""
}

// TestTheDeadlinesOfARequestObeyTheSettings has a backend that cannot be connected to and a
// client that sends no body.
func TestTheDeadlinesOfARequestObeyTheSettings(t *testing.T) {
	m := miniredis.RunT(t)
	const connect, start = 3 * time.Second, 300 * time.Millisecond // the defaults are 1 s and 60 s
	m.HSet(settings.Key, "timeout.connect", connect.String(), "timeout.body", start.String(), "retry.max_retries", "0")
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: m, backends: ["http://%s"]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 2s}
`, m.Addr(), noAnswer(t), routeUsual))
	began := time.Now()
	resp, err := apptest.Client.Post(p.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(routeUsual)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if took := time.Since(began); took < connect || took > connect+5*time.Second {
		t.Errorf("status %d: a connection was waited for %v, want %v", resp.StatusCode, took, connect)
	}
	conn, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	began = time.Now()
	_, _ = fmt.Fprint(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if took := time.Since(began); resp.StatusCode != http.StatusRequestTimeout || took < start || took > start+3*time.Second {
		t.Errorf("status %d after %v, want 408 after %v", resp.StatusCode, took, start)
	}
}
