package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

func TestARedisThatIsSilentIsCountedAndNotTold(t *testing.T) {
	m := miniredis.RunT(t)
	c := client(m.Addr(), nil)
	defer func() { _ = c.Close() }()
	var log logbook
	w := New(Options{Redis: c, Registerer: prometheus.NewPedanticRegistry(), Logger: zerolog.New(&log)})
	m.HSet(Key, shedLow, "0.7")
	if err := w.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Close()
	for range 5 {
		if err := w.Poll(t.Context()); err == nil {
			t.Error("read from a Redis that is dead")
		}
	}
	if n := testutil.ToFloat64(w.metrics.errors); n != 5 {
		t.Errorf("%v errors were counted", n)
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, func() bool { return w.Poll(t.Context()) == nil })
	if diff := cmp.Diff([]string{"info settings applied"}, log.lines(t)); diff != "" {
		t.Errorf("log: -want +got:\n%s", diff)
	}
}

// TestARedisThatRefusesIsToldOnceAndWhenItEnds has a key of the wrong type, a Redis that is
// silent in between, and a user who may not read.
func TestARedisThatRefusesIsToldOnceAndWhenItEnds(t *testing.T) {
	m := miniredis.RunT(t)
	c := client(m.Addr(), nil)
	defer func() { _ = c.Close() }()
	var log logbook
	w := New(Options{Redis: c, Logger: zerolog.New(&log)})
	poll := func() {
		for range 3 {
			_ = w.Poll(t.Context())
		}
	}
	m.HSet(Key, shedLow, "0.7")
	poll()
	m.Del(Key)
	if err := m.Set(Key, "a string"); err != nil {
		t.Fatal(err)
	}
	poll()
	m.Close()
	poll()
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	poll()
	if got := in(w.Snapshot().Global(), shedLow); got != "0.7" {
		t.Errorf("shed.low %s", got)
	}
	m.Del(Key)
	m.HSet(Key, shedLow, "0.6")
	within(t, 10*time.Second, func() bool { return w.Poll(t.Context()) == nil })
	m.SetError("NOPERM this user may not")
	poll()
	m.SetError("")
	poll()
	want := []string{
		"info settings applied",
		"warn settings are not readable; the last good ones stay in force",
		"info settings are readable again",
		"info settings applied",
		"warn settings are not readable; the last good ones stay in force",
		"info settings are readable again",
	}
	if diff := cmp.Diff(want, log.lines(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !strings.Contains(log.buf.String(), "WRONGTYPE") || !strings.Contains(log.buf.String(), "NOPERM") {
		t.Errorf("the log does not say why: %s", log.buf.String())
	}
}
