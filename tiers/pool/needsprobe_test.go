package pool

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// hang gives backend a readings of an engine that has work and makes no step.
func (b *bench) hang(d time.Duration) {
	b.run(d, func() pressure.Reading { return works(4, 100) })
}

func TestTheEndOfAStalledRequestIsNoSignOfLife(t *testing.T) {
	b := newBench(t, Options{})
	l := pick(t, b.Pool, Demand{PromptTokens: 10, Exclude: []string{"b", "c", "d"}})
	l.FirstToken()
	b.hang(3 * time.Second)
	if b.Snapshot()[0].State != StateSuspect {
		t.Fatal("not found")
	}
	if l.Done(7); b.Snapshot()[0].State != StateSuspect {
		t.Error("a stalled request's end says that the engine is well")
	}
	l.MarkAlive()
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("a token came, and it is suspect still")
	}
	b.hang(4 * time.Second) // a token speaks for it for three
	if b.Snapshot()[0].State != StateSuspect {
		t.Error("one token speaks for the engine for ever")
	}
}

func TestDrainsHoldForBackendsThatComeLater(t *testing.T) {
	b := newBench(t, Options{})
	b.ReceiveDrains(map[string]string{"a": "fleet", "b": "by hand", "e": "fleet"})
	b.replace([]string{"http://c"})
	b.replace([]string{"http://a", "http://b", "http://c", "http://e"})
	for i, want := range []string{"fleet", "by hand", "", "fleet"} {
		if got := b.drainOf(i); got != want {
			t.Errorf("backend %d: %q, want %q", i, got, want)
		}
	}
}

func TestOnlyWhatRefusedConnectionsHasLostItsCache(t *testing.T) {
	parts := prefix.Head{Tenant: "t", First: []byte("x")}.Parts(4000)
	for err, cold := range map[error]bool{syscall.ECONNREFUSED: true, errors.New("no such host"): false} {
		b := newBench(t, Options{Backends: []string{"http://a"}})
		l := pick(t, b.Pool, Demand{PromptTokens: 4000, Parts: parts})
		l.ReportRefused(err)
		b.now = b.now.Add(time.Second)
		b.setUp(b.first(), b.now)
		if got := b.first().cache.Placed() == 0; got != cold {
			t.Errorf("%v: cold %v", err, got)
		}
	}
}

func TestAnAnswerWithoutAStepShowsThatTheMetricsAreFrozenThoughTheySayIdle(t *testing.T) {
	b := newBench(t, Options{})
	idle := func() pressure.Reading { return works(0, 100) }
	b.run(2*time.Second, idle)
	l := pick(t, b.Pool, Demand{PromptTokens: 10, Exclude: []string{"b", "c", "d"}})
	b.now = b.now.Add(400 * time.Millisecond)
	l.FirstToken()
	l.Done(5)
	b.run(500*time.Millisecond, idle)
	if s := b.Snapshot()[0]; !looked(b.Pool)[0].usageUnknown || s.State == StateSuspect || s.Why == "" {
		t.Errorf("got %+v", s)
	}
	b.run(500*time.Millisecond, func() pressure.Reading { return works(0, 101) })
	if s := b.Snapshot()[0]; looked(b.Pool)[0].usageUnknown || s.Why != "" {
		t.Errorf("they move again: %+v", s)
	}
}
