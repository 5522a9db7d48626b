package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

func TestWhoIsProbedAndWhen(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b, c := Backend{ID: "a", Up: true, Life: 1}, Backend{ID: "b", Up: true, Life: 1}, Backend{ID: "c", Up: true, Life: 1}
	down := func(b Backend) Backend { b.Up = false; return b }
	reborn := func(b Backend) Backend { b.Life++; return b }
	kind := func(b Backend, k dialect.Kind) Backend { b.Engine = k; return b }
	early, late := now.Add(time.Second), now.Add(-time.Second)
	for _, tc := range []struct {
		what string
		w    *watch
		set  []Backend
		want string // "" is nobody
	}{
		{"nobody was asked", &watch{}, []Backend{a, b}, "a"},
		{"nobody was asked, and the first is down", &watch{}, []Backend{down(a), b}, "b"},
		{"there is none", &watch{}, nil, ""},
		{"none is up", &watch{}, []Backend{down(a), down(b)}, ""},
		{"it is not time", &watch{lastBackend: b, due: early}, []Backend{a, b, c}, ""},
		{"it is time", &watch{lastBackend: b, due: late}, []Backend{a, b, c}, "b"},
		{"it is time, and it is down", &watch{lastBackend: b, due: late}, []Backend{a, down(b), c}, "c"},
		{"restarted", &watch{lastBackend: b, due: early}, []Backend{a, reborn(b), c}, "b"},
		{"restarted, and not up yet", &watch{lastBackend: b, due: early}, []Backend{a, down(reborn(b)), c}, ""},
		{"restarted while another is to be tried", &watch{lastBackend: b, due: early, fails: 2}, []Backend{a, reborn(b), c}, "b"},
		{"another was restarted", &watch{lastBackend: b, due: early}, []Backend{a, b, reborn(c)}, ""},
		{"another kind than was thought", &watch{lastBackend: b, due: early}, []Backend{a, kind(b, dialect.SGLang), c}, "b"},
		{"the kind that was thought", &watch{lastBackend: b, due: early}, []Backend{a, kind(b, dialect.VLLM), c}, ""},
		{"another kind, and it is down", &watch{lastBackend: b, due: early}, []Backend{a, down(kind(b, dialect.SGLang)), c}, ""},
		{"another's kind is known", &watch{lastBackend: b, due: early}, []Backend{a, b, kind(c, dialect.SGLang)}, ""},
		{"gone", &watch{lastBackend: b, due: early}, []Backend{a, c}, "a"},
		{"failed, and it is not time", &watch{lastBackend: b, due: early, fails: 1}, []Backend{a, b, c}, ""},
		{"failed: the next", &watch{lastBackend: b, due: late, fails: 1}, []Backend{a, b, c}, "c"},
		{"failed: the next, all around", &watch{lastBackend: c, due: late, fails: 1}, []Backend{a, b, c}, "a"},
		{"failed, and there is no other", &watch{lastBackend: a, due: late, fails: 1}, []Backend{a, down(b)}, "a"},
	} {
		got, why := tc.w.next(tc.set, now)
		if got.ID != tc.want || (why == "") != (tc.want == "") {
			t.Errorf("%s: %q, %q", tc.what, got.ID, why)
		}
	}
}

func TestPausesDoubleUpToABound(t *testing.T) {
	now := time.Unix(1000, 0)
	w := watch{services: &services{pace: defaultPace}}
	wait := func(e probeRun, err error) time.Duration {
		w.schedule(&e, err, now)
		return w.due.Sub(now)
	}
	broken, part := errors.New("broken"), probeRun{weak: "scoring"}
	for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := wait(probeRun{}, broken); got.Seconds() != float64(want) {
			t.Errorf("failure %d: %v", i+1, got)
		}
	}
	for i, want := range []int{10, 20, 40, 80, 160, 320, 640, 900, 900} {
		if got := wait(part, nil); got.Seconds() != float64(want) {
			t.Errorf("part %d: %v", i+1, got)
		}
	}
	if got := wait(probeRun{}, nil); got < 13*time.Minute || got > 17*time.Minute {
		t.Errorf("after a good one: %v", got)
	}
	if got := wait(probeRun{}, broken); got != time.Second {
		t.Errorf("after a good one, the first failure: %v", got)
	}
	for i, want := range []int{5, 10, 20, 40, 60, 60} {
		w.schedule(&probeRun{weak: "scoring", deadly: true}, nil, now)
		if got := w.opens.Sub(now); got.Minutes() != float64(want) {
			t.Errorf("death %d: closed for %v", i+1, got)
		}
	}
	w.schedule(&probeRun{found: Capabilities{Scoring: "completions"}}, nil, now)
	if w.deaths != 0 {
		t.Error("deaths are counted though it scores")
	}
}

func TestWhatIsKeptOfTheLastCard(t *testing.T) {
	broken := errors.New("broken")
	at := time.Unix(1000, 0)
	was := Capabilities{At: at, Backend: "a", Life: 1, Scoring: "completions", Tokenizer: "t"}
	other := Capabilities{At: at, Backend: "a", Life: 1, Tokenizer: "u"}
	set := []Backend{{ID: "a", Life: 1, Up: true}, {ID: "b", Life: 1, Up: true}}
	reborn := []Backend{{ID: "a", Life: 2, Up: true}}
	turned := []Backend{{ID: "a", Life: 1, Up: true, Engine: dialect.SGLang}}
	if c := settle(&was, &probeRun{found: Capabilities{Backend: "b", Life: 1}}, broken, set); c.Scoring != "completions" || c.Backend != "a" || c.Failed != "broken" {
		t.Errorf("another backend failed: %+v", c)
	}
	for what, set := range map[string][]Backend{"restarted": reborn, "of another kind": turned, "gone": set[1:]} {
		if c := settle(&was, &probeRun{found: Capabilities{Backend: "a", Life: 2}}, broken, set); c.Scoring != "" || c.Failed != "broken" || !c.At.IsZero() {
			t.Errorf("%s: %+v", what, c)
		}
	}
	if c := settle(&was, &probeRun{found: other, weak: "scoring: late"}, nil, set); c.Scoring != "completions" || c.Failed != "scoring: late" || c.Tokenizer != "t" {
		t.Errorf("scoring failed once: %+v", c)
	}
	if c := settle(&was, &probeRun{found: other, weak: "scoring: cut", deadly: true}, nil, set); c.Scoring != "" {
		t.Errorf("scoring was deadly: %+v", c)
	}
	if c := settle(&was, &probeRun{found: other}, nil, set); c.Scoring != "" || c.Tokenizer != "u" || c.Failed != "" {
		t.Errorf("it scores no more: %+v", c)
	}
	if was.Failed != "" {
		t.Errorf("the published card was changed: %+v", was)
	}
}

func TestAPanicOfAProbeEndsNeitherTheProcessNorTheProbes(t *testing.T) {
	t.Parallel() // a second passes
	var asked atomic.Int32
	p, err := New(Options{Pools: []Pool{{Name: "p", Model: "m", Backends: func() []Backend {
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
