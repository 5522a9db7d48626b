package pool

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// prompted is a demand with a system prompt, and a first message that is not met again.
func prompted(system string, i int) Demand {
	return Demand{PromptTokens: 1000, Parts: prefix.Head{Tenant: "t", System: []byte(system), First: fmt.Append(nil, i)}.Parts(4000)}
}

func TestTheSystemPromptTellsTheKind(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	terse, chatty := "you say yes or no", "you tell stories"
	for i := range 40 {
		for system, tokens := range map[string]int{terse: 50, chatty: 800} {
			l := pick(t, b.Pool, prompted(system, i))
			l.Done(tokens)
		}
	}
	one, two := pick(t, b.Pool, prompted(terse, 100)), pick(t, b.Pool, prompted(chatty, 101))
	if one.kind < 0 || two.kind < 0 || one.kind == two.kind {
		t.Fatalf("kinds %d and %d", one.kind, two.kind)
	}
	if one.output != 50 || two.output != 800 {
		t.Errorf("expected %d and %d tokens", one.output, two.output)
	}
	plain := pick(t, b.Pool, Demand{PromptTokens: 1000, MaxOutput: 64})
	if plain.kind != -1 || plain.output != 64 {
		t.Errorf("without a system prompt: kind %d, %d tokens", plain.kind, plain.output)
	}
	for _, l := range []*Lease{one, two, plain} {
		l.Done(0) // of which nothing is learned
	}
	if again := pick(t, b.Pool, prompted(terse, 102)); again.output != 50 {
		t.Errorf("calls that failed were taken for short answers: %d", again.output)
	}
}
