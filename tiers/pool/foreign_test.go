package pool

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/tiers/pressure"
)

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
