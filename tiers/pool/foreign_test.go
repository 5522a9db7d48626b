package pool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// foreign is everything that a pool calls, and counts the calls: of each all, and those that came
// while the pool was locked. One goroutine uses it.
type foreign struct {
	pool          *Pool // nil while it is made
	calls, locked map[string]int
	now           time.Time
	published     func()
}

func (f *foreign) call(name string) {
	f.calls[name]++
	if f.pool == nil {
		return
	}
	if !f.pool.mu.TryLock() {
		f.locked[name]++
		return
	}
	f.pool.mu.Unlock()
}

func (f *foreign) Replicas() int                            { f.call("Fleet.Replicas"); return 2 }
func (f *foreign) Sharing() bool                            { f.call("Fleet.Sharing"); return true }
func (f *foreign) Mine(string, string) bool                 { f.call("Fleet.Mine"); return true }
func (f *foreign) Publish(string, string, pressure.Reading) { f.call("Fleet.Publish"); f.published() }
func (f *foreign) Place(string, []prefix.Placement)         { f.call("Fleet.Place") }

func (f *foreign) Write(line []byte) (int, error) { f.call("Logger"); return len(line), nil }

// newForeign makes a pool that calls f for everything.
func newForeign(t *testing.T, backends []string) (*foreign, *Pool) {
	f := &foreign{calls: map[string]int{}, locked: map[string]int{}, now: time.Unix(1_800_000_000, 0)}
	f.pool = fixed(t, Options{
		Backends:   backends,
		Policy:     func() string { f.call("Policy"); return PolicyFit },
		Open:       func(string) bool { f.call("Open"); return false },
		Shut:       func(string) bool { f.call("Shut"); return false },
		Ramp:       func(string) float64 { f.call("Ramp"); return 1 },
		OnCapacity: func() { f.call("OnCapacity") },
		Now:        func() time.Time { f.call("Now"); f.now = f.now.Add(time.Millisecond); return f.now },
		Fleet:      f, Logger: zerolog.New(f),
	})
	return f, f.pool
}

func TestNothingForeignIsCalledUnderThePoolsLock(t *testing.T) {
	f, p := newForeign(t, urls(3))
	set := *p.set.Load()
	for i := range set {
		p.give(i, works(3, 1))
	}
	l := pick(t, p, conversation("x", 4000))
	l.SetPromptTokens(4100)
	l.MarkAlive()
	l.FirstToken()
	l.ReportFailed()
	l.Done(3)
	pick(t, p, Demand{Optional: true}).ReportRefused(nil)
	if _, err := p.pick(Demand{PromptTokens: 1 << 30, Admission: Admission{MaxUsage: 0.1}}); !errors.Is(err, ErrNoBackend) {
		t.Error(err)
	}
	id := set[0].id
	p.Drain(id, "x", time.Hour)
	p.Undrain(id)
	p.ReceiveDrains(map[string]string{id: "y"})
	p.ReceiveDrains(nil)
	p.ReceivePlacements([]prefix.Placement{{Key: 5, Backend: id, Tokens: 900, Own: 900}})
	p.Observe(id, pressure.Reading{}, errors.New("refused"))
	p.Observe(id, works(3, 2), nil)
	p.ReceiveReading(id, works(3, 3))
	p.ShouldScrape(id, false, time.Time{})
	p.Snapshot()
	p.Load()
	p.Readiness()
	p.OptionalReadiness()
	p.replace(urls(4))
	if len(f.locked) > 0 {
		t.Errorf("under the lock: %v", f.locked)
	}
	all := maps.Clone(f.calls)
	maps.Copy(all, watched(t))
	for _, name := range []string{
		"Policy", "Open", "Shut", "Ramp", "OnCapacity", "Now", "Logger", "Fleet.Replicas", "Fleet.Sharing",
		"Fleet.Place", "Fleet.Publish", "Fleet.Mine", "OnLost",
	} {
		if all[name] == 0 {
			t.Errorf("%s was never called: the test shows nothing of it", name)
		}
	}
	if known := slices.Sorted(maps.Keys(all)); len(known) != 13 {
		t.Errorf("not all are listed: %v", known)
	}
}

// watched watches a backend until it has told a reading, and then while it answers nothing.
func watched(t *testing.T) (calls map[string]int) {
	f, p := newForeign(t, []string{serve(t, usage).url()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.published = cancel
	b := (*p.set.Load())[0]
	p.watch(ctx, b)
	l, moved := pick(t, p, Demand{PromptTokens: 10, Optional: true}), 0
	l.OnLost(func(error) { moved++; f.call("OnLost") }, false)
	for range 3 {
		asked := f.now
		f.now = f.now.Add(500 * time.Millisecond)
		p.noteUnanswered(b, asked)
	}
	p.noteMissed(b, unresolved)
	p.needsProbe(b)
	p.pause(b, false)
	if moved != 1 || len(f.locked) > 0 {
		t.Errorf("moved %d times; under the lock: %v", moved, f.locked)
	}
	return f.calls
}

func TestABackendThatLeavesWhileOthersAreAskedIsNotPicked(t *testing.T) {
	var b *bench
	leave := func() {}
	b = newBench(t, Options{Backends: []string{"http://a", "http://b"}, Open: func(string) bool { leave(); return false }})
	b.tick(0, func(i int) pressure.Reading { return works(20*i, 1) }) // a is idle
	pick(t, b.Pool, Demand{PromptTokens: 10}).Done(0)
	for _, left := range [][]string{{"http://b", "http://c"}, {"http://b"}} {
		leave = func() { leave = func() {}; b.replace(left) }
		if l := pick(t, b.Pool, Demand{PromptTokens: 10}); l.Backend() != "b" {
			t.Errorf("%s was picked, which had left or came just now", l.Backend())
		}
	}
	leave = func() { b.replace([]string{"http://d"}) }
	if l := pick(t, b.Pool, Demand{PromptTokens: 10}); l.Backend() != "d" {
		t.Errorf("%s was picked, and all but d had left", l.Backend())
	}
	leave = func() { b.replace(nil) }
	if _, err := b.pick(Demand{PromptTokens: 10}); !errors.Is(err, ErrNoBackend) {
		t.Errorf("got %v, want none: all had left", err)
	}
}
