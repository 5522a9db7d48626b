package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// client has the options of the background client: deadlines hold for reads and writes, and nothing is sent twice.
func client(addr string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Dialer: dial, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 250 * time.Millisecond, ReadTimeout: 250 * time.Millisecond, WriteTimeout: 250 * time.Millisecond,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// longTimeoutClient is a client of the test's own, which a busy machine does not hurry.
func longTimeoutClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// logbook is a log that may be read while it is written.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}

// lines returns level, message and the named field of each line so far.
func (l *logbook) lines(t *testing.T) []string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		var e struct{ Level, Message, Name, Value, Warning string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, strings.Join(strings.Fields(fmt.Sprintln(e.Level, e.Message, e.Name, e.Value, e.Warning)), " "))
	}
	return out
}

// within waits until done, or fails after the bound; it looks often.
func within(t *testing.T, bound time.Duration, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v", bound)
		case <-look.C:
		}
	}
}

// store is a Redis to set settings in.
type store struct {
	addr string
	set  func(field, value string)
	del  func(fields ...string)
}

// stores runs the same test on miniredis and, when REDIS_ADDR is set, on Redis.
func stores(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("miniredis", func(t *testing.T) {
		m := miniredis.RunT(t)
		test(t, store{m.Addr(), func(f, v string) { m.HSet(Key, f, v) }, func(fs ...string) {
			for _, f := range fs {
				m.HDel(Key, f)
			}
		}})
	})
	t.Run("redis", func(t *testing.T) {
		addr := os.Getenv("REDIS_ADDR")
		if addr == "" {
			t.Skip("REDIS_ADDR is not set")
		}
		c := longTimeoutClient(addr)
		t.Cleanup(func() { _ = c.Close() })
		wipe := func() { c.Del(context.Background(), Key) }
		wipe()
		t.Cleanup(wipe)
		test(t, store{addr, func(f, v string) { c.HSet(context.Background(), Key, f, v) }, func(fs ...string) { c.HDel(context.Background(), Key, fs...) }})
	})
}

func TestAFrozenRedisHoldsUpAPollForItsDeadlineOnly(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the backlog and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	c := client(mute.Addr().String(), nil)
	defer func() { _ = c.Close() }()
	w := New(Options{Redis: c})
	began := time.Now()
	if err := w.Poll(t.Context()); err == nil {
		t.Error("read from a mute server")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestTheMetricsTellWhatIsRefused(t *testing.T) {
	m := miniredis.RunT(t)
	c := client(m.Addr(), nil)
	defer func() { _ = c.Close() }()
	reg := prometheus.NewPedanticRegistry()
	w := New(Options{Redis: c, Registerer: reg})
	m.HSet(Key, shedLow, "1.5", "bad\xff\nname", "x", "retry.max_retries", "3")
	_ = w.Poll(t.Context())
	m.SetError("LOADING")
	_ = w.Poll(t.Context())
	want := `
# HELP foregate_settings_errors_total Failed reads of the live settings; the last valid settings stay in force.
# TYPE foregate_settings_errors_total counter
foregate_settings_errors_total 1
# HELP foregate_settings_rejected 1 for every live setting whose value this replica rejects; its last valid value stays in force.
# TYPE foregate_settings_rejected gauge
foregate_settings_rejected{name="shed.low"} 1
# HELP foregate_settings_unknown 1 for every live setting that this replica does not know and ignores: it is misspelt or of another version.
# TYPE foregate_settings_unknown gauge
foregate_settings_unknown{name="bad??name"} 1
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"foregate_settings_errors_total", "foregate_settings_rejected", "foregate_settings_unknown")
	if err != nil {
		t.Error(err)
	}
	if at := testutil.ToFloat64(w.metrics.applied); at < 1e9 {
		t.Errorf("applied at %v", at)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestSettingsAreReadEveryIntervalAndAgeWhenTheyAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		c := client("127.0.0.1:6379", func(context.Context, string, string) (net.Conn, error) { return m.Dial() })
		defer func() { _ = c.Close() }()
		w := New(Options{Redis: c})
		time.Sleep(time.Minute)
		if w.Age() != time.Minute {
			t.Errorf("never read: age %v", w.Age())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.Run(ctx) })
		synctest.Wait()
		if w.Age() != 0 {
			t.Errorf("just read: age %v", w.Age())
		}
		m.HSet(Key, shedLow, "0.7")
		time.Sleep(defaultInterval + defaultInterval/4) // the first beat may be as late
		synctest.Wait()
		for last := w.Age(); last < defaultInterval; last = w.Age() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if w.Age() < last {
				break // read, after no longer than the interval
			}
		}
		if in(w.Snapshot().Global(), shedLow) != "0.7" || w.Age() > time.Millisecond {
			t.Errorf("not read after 500 ms: age %v", w.Age())
		}
		m.SetError("LOADING")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if in(w.Snapshot().Global(), shedLow) != "0.7" || w.Age().Truncate(time.Millisecond) != 10*time.Second {
			t.Errorf("age %v", w.Age())
		}
		cancel()
		wg.Wait()
	})
}

func TestARouteThatIsAddedHasItsOwnSettingsAtOnce(t *testing.T) {
	m := miniredis.RunT(t)
	c := client(m.Addr(), nil)
	defer func() { _ = c.Close() }()
	m.HSet(Key, "speculation.mode@added", "off")
	w := New(Options{Redis: c, Routes: []string{"llama"}})
	if err := w.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Snapshot().Unknown); n != 1 {
		t.Fatalf("%d settings of unknown routes", n)
	}
	w.SetRoutes([]string{"llama", "added"})
	if got := in(w.Snapshot().Route("added"), "speculation.mode"); got != "off" || len(w.Snapshot().Unknown) != 0 {
		t.Errorf("the added route has mode %s; unknown %v", got, w.Snapshot().Unknown)
	}
	w.SetRoutes([]string{"llama"})
	if in(w.Snapshot().Route("added"), "speculation.mode") == "off" || len(w.Snapshot().Unknown) != 1 {
		t.Errorf("the removed route keeps its settings; unknown %v", w.Snapshot().Unknown)
	}
}
