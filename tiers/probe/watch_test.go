package probe

import (
	"context"
	"errors"
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
	for fails, want := range []string{"b", "c", "a", "b"} {
		if got, ok := w.whom([]Backend{a, b, c}, fails); got.ID != want || !ok {
			t.Errorf("after %d failures %q is asked", fails, got.ID)
		}
	}
	if got, ok := w.whom([]Backend{a, b, kind(c, dialect.SGLang)}, 1); got.ID != "a" || !ok {
		t.Errorf("%q of another kind is asked", got.ID)
	}
	if _, ok := w.whom([]Backend{down(b)}, 0); ok {
		t.Error("one that is down is asked")
	}
}

// The foundations come first, then each question in its time: one that has failed does not hold up the others.
func TestWhichQuestionIsNext(t *testing.T) {
	now := time.Unix(1000, 0)
	w := &watch{states: make([]state, len(questions))}
	for i := range w.states {
		w.states[i].due = now
	}
	for i := range foundations {
		if got := w.question(now); got != i {
			t.Fatalf("question %d instead of %d", got, i)
		}
		w.states[i] = state{known: true}
	}
	w.states[foundations] = state{fails: 1, due: now, failed: "late"}
	if got := w.question(now); got != foundations+1 {
		t.Errorf("question %d before one that was not asked", got)
	}
	for i := foundations + 1; i < len(questions); i++ {
		w.states[i] = state{known: true}
	}
	if got := w.question(now); got != foundations {
		t.Errorf("question %d instead of the one that failed", got)
	}
	w.states[foundations].due = now.Add(time.Second)
	if got := w.question(now); got >= 0 {
		t.Errorf("question %d before its time", got)
	}
	w.states[0] = state{fails: 3, due: now.Add(time.Second), failed: "late"}
	w.states[foundations] = state{due: now}
	if got := w.question(now); got >= 0 {
		t.Errorf("question %d though the model is not known", got)
	}
}

func TestPausesDoubleUpToABound(t *testing.T) {
	now := time.Unix(1000, 0)
	w := watch{prober: &Prober{pace: defaultPace}, run: &probeRun{}}
	s := &state{}
	wait := func(err error, again string) time.Duration {
		w.run.again = again
		w.schedule(s, err, now)
		return s.due.Sub(now)
	}
	for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := wait(errors.New("broken"), ""); got.Seconds() != float64(want) || !s.open() || s.known {
			t.Errorf("failure %d: %v, %+v", i+1, got, s)
		}
	}
	s = &state{}
	for i, want := range []int{10, 20, 40, 80, 160, 320, 640, 900, 900} {
		if got := wait(nil, "no end"); got.Seconds() != float64(want) || !s.open() || !s.known {
			t.Errorf("part %d: %v, %+v", i+1, got, s)
		}
	}
	if wait(nil, ""); s.open() {
		t.Errorf("after a good answer it is open: %+v", s)
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
