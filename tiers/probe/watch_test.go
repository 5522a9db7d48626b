package probe

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

func TestWhoIsProbed(t *testing.T) {
	a, b, c := Backend{ID: "a", Up: true, Life: 1}, Backend{ID: "b", Up: true, Life: 1}, Backend{ID: "c", Up: true, Life: 1}
	down := func(b Backend) Backend { b.Up = false; return b }
	reborn := func(b Backend) Backend { b.Life++; return b }
	kind := func(b Backend, k dialect.Kind) Backend { b.Engine = k; return b }
	for _, tc := range []struct {
		what string
		last Backend
		set  []Backend
		want string // "" is: the same as before
	}{
		{"nobody was asked", Backend{}, []Backend{a, b}, "a"},
		{"nobody was asked, and the first is down", Backend{}, []Backend{down(a), b}, "b"},
		{"there is none", Backend{}, nil, ""},
		{"none is up", Backend{}, []Backend{down(a), down(b)}, ""},
		{"it lives", b, []Backend{a, b, c}, ""},
		{"it is down", b, []Backend{a, down(b), c}, ""},
		{"restarted", b, []Backend{a, reborn(b), c}, "b"},
		{"restarted, and not up yet", b, []Backend{a, down(reborn(b)), c}, ""},
		{"another was restarted", b, []Backend{a, b, reborn(c)}, ""},
		{"another kind than was thought", b, []Backend{a, kind(b, dialect.SGLang), c}, "b"},
		{"the kind that was thought", b, []Backend{a, kind(b, dialect.VLLM), c}, ""},
		{"another kind, and it is down", b, []Backend{a, down(kind(b, dialect.SGLang)), c}, ""},
		{"another's kind is known", b, []Backend{a, b, kind(c, dialect.SGLang)}, ""},
		{"gone", b, []Backend{a, c}, "a"},
	} {
		w := &watch{backend: tc.last}
		got, why := w.next(tc.set)
		if got.ID != tc.want || (why == "") != (tc.want == "") {
			t.Errorf("%s: %q, %q", tc.what, got.ID, why)
		}
	}
	w := &watch{backend: b}
	for skipped, want := range []string{"b", "c"} {
		if got, ok := w.whom([]Backend{a, b, c}, skipped); got.ID != want || !ok {
			t.Errorf("behind %d others %q is asked", skipped, got.ID)
		}
	}
	if got, ok := w.whom([]Backend{a, b, kind(c, dialect.SGLang)}, 1); got.ID != "a" || !ok {
		t.Errorf("%q of another kind is asked", got.ID)
	}
	if _, ok := w.whom([]Backend{down(b)}, 0); ok {
		t.Error("one that is down is asked")
	}
}

func TestAPanicOfAProbeEndsNeitherTheProcessNorTheProbes(t *testing.T) {
	t.Parallel() // a second passes
	var asked atomic.Int32
	p, err := New(Options{Ready: func() bool { return true }, Pools: []Pool{{Name: "p", Model: "m", Backends: func() []Backend {
		if asked.Add(1) == 1 {
			panic("of a pool")
		}
		return nil
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	late := time.After(20 * time.Second)
	for tick := time.NewTicker(time.Millisecond); asked.Load() < 2; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it is not asked again")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
