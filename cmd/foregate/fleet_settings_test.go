package main

import (
	"bufio"
	"encoding/json"
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

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
)

// inForce is a setting as a replica says it is in force.
func (p *server) inForce(t *testing.T, name string) string {
	t.Helper()
	_, route, _ := strings.Cut(name, "@")
	for _, s := range p.allInForce(t, route) {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

func (p *server) allInForce(t *testing.T, route string) []gateway.SettingView {
	t.Helper()
	status, body := get(t, p.admin+"/admin/settings?route="+route)
	var answer struct{ Settings []gateway.SettingView }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("GET /admin/settings: status %d, %v", status, err)
	}
	return answer.Settings
}

// standing is what a replica says of itself.
func (p *server) standing(t *testing.T) gateway.Status {
	t.Helper()
	status, body := get(t, p.admin+"/admin/status")
	var s gateway.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		t.Fatalf("GET /admin/status: status %d, %v", status, err)
	}
	return s
}

// TestAChangeAndABadValueAreSeenByEveryReplicaWithinASecond changes settings by hand, by
// the command, and to what no setting may be.
func TestAChangeAndABadValueAreSeenByEveryReplicaWithinASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 1)
	hset := func(name, value string) {
		t.Helper()
		if err := w.redis.client.HSet(t.Context(), settings.Key, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const rounds = 6
	worst := map[string]time.Duration{}
	seen := func(what string, ok func(p *server) bool) {
		t.Helper()
		began, slowest := time.Now(), time.Duration(0)
		within(t, 10*time.Second, what, func() bool {
			look := time.Now()
			all := w.all(ok)
			slowest = max(slowest, time.Since(look))
			return all
		})
		took := time.Since(began)
		worst[what] = max(worst[what], took)
		if took > settingsWithin+busyMachine+5*slowest {
			promised(t, what, took, settingsWithin, slowest)
		}
	}
	for i := range rounds {
		value := fmt.Sprintf("0.%d1", i)
		hset("retry.budget", value)
		seen("a change by hand", func(p *server) bool { return p.inForce(t, "retry.budget") == value })
		value = fmt.Sprintf("%ds", i+21)
		if status, out, errs := call(t, "settings", "set", "timeout.stream_idle@"+routeUsual+"="+value, "--redis", "redis://"+w.redis.addr, "--as", "test"); status != 0 {
			t.Fatalf("settings set: status %d: %s%s", status, out, errs)
		}
		seen("a change by the command", func(p *server) bool { return p.inForce(t, "timeout.stream_idle@"+routeUsual) == value })
		bad := fmt.Sprintf("1.%d", i+1)
		hset("retry.budget", bad)
		seen("a bad value", func(p *server) bool {
			refused := p.standing(t).Settings.Rejected
			return len(refused) == 1 && refused[0].Name == "retry.budget" && refused[0].Value == bad && p.inForce(t, "retry.budget") == fmt.Sprintf("0.%d1", i)
		})
	}
	t.Logf("worst of %d: %v", rounds, worst)
	if status, _, errs := call(t, "settings", "rollback", "1", "--redis", "redis://"+w.redis.addr); status != 0 {
		t.Fatalf("rollback: %s", errs)
	}
	seen("a rollback", func(p *server) bool {
		return p.inForce(t, "retry.budget") == "0.01" && p.inForce(t, "timeout.stream_idle@"+routeUsual) == "20s" && len(p.standing(t).Settings.Rejected) == 0
	})
}

// TestABadValueOfAnySettingIsInTheMetricTheLogAndTheStatus sets all settings at once to
// what none may be, ten times.
func TestABadValueOfAnySettingIsInTheMetricTheLogAndTheStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	client := startRedis(t)
	p := serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: m, backends: [%q]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 2s}
`, client.Options().Addr, newRecorder(t).url, routeUsual))
	before := p.allInForce(t, routeUsual)
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
		began, slowest, last := time.Now(), time.Duration(0), time.Now()
		within(t, 10*time.Second, what, func() bool {
			s := p.standing(t).Settings
			now := time.Now()
			slowest, last = max(slowest, now.Sub(last)), now
			var refused []string
			for _, r := range s.Rejected {
				if r.Value == shown && r.Reason != "" {
					refused = append(refused, r.Name)
				}
			}
			return slices.Equal(refused, names) && len(s.Unknown) == 1 && len(s.Changed) == 0
		})
		promised(t, what, time.Since(began), settingsWithin, slowest)
		page := p.metrics(t)
		for _, name := range names {
			if !strings.Contains(page, fmt.Sprintf("foregate_settings_rejected{name=%q} 1\n", name)) {
				t.Errorf("%s = %q is not in the metric", name, shown)
			}
		}
		if !strings.Contains(page, `foregate_settings_unknown{name="a.setting.of.tomorrow"} 1`) {
			t.Error("the unknown setting is not in the metric")
		}
		if after := p.allInForce(t, routeUsual); !slices.Equal(before, after) {
			t.Errorf("%q changed what is in force: %v", shown, after)
		}
	}
	eventually(t, "the log tells each time of the fields, and of more than it names", func() bool {
		return strings.Count(p.log.String(), "further fields: setting refused") == 10
	})
	status, out, errs := call(t, "status", "--admin", p.admin)
	if status != 0 || strings.Count(out, "REJECTED ") != len(names) || strings.Count(out, "UNKNOWN ") != 1 {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
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
	t.Parallel()
	m := miniredis.RunT(t)
	const connect, start = 3 * time.Second, 300 * time.Millisecond // the defaults are 1 s and 5 s
	m.HSet(settings.Key, "timeout.connect", connect.String(), "timeout.body_start", start.String(), "retry.max_retries", "0")
	p := serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: m, backends: ["http://%s"]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 2s}
`, m.Addr(), noAnswer(t), routeUsual))
	began := time.Now()
	resp, err := plain.Post(p.base+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(routeUsual)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if took := time.Since(began); took < connect || took > connect+5*time.Second {
		t.Errorf("status %d: a connection was waited for %v, want %v", resp.StatusCode, took, connect)
	}
	conn, err := net.Dial("tcp", p.addr)
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
