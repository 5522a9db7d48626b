package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestBeforeAnyAnswerAGuessStands(t *testing.T) {
	o := newOutputs()
	for _, kind := range []int{-1, 0, 255} {
		if mean, variance := o.of(kind, 0); mean != meanOutputDefault || variance != meanOutputDefault*meanOutputDefault {
			t.Errorf("kind %d: %v ± %v", kind, mean, math.Sqrt(variance))
		}
	}
	if mean, variance := o.of(-1, 50); mean != 50 || variance != 0 {
		t.Errorf("of at most 50 tokens: %v, %v", mean, variance)
	}
	if mean, variance := o.of(-1, 4096); mean != meanOutputDefault || variance == 0 {
		t.Errorf("of at most 4096 tokens: %v, %v", mean, variance)
	}
}

func TestKindsOfAnswersAreToldApartAfter32(t *testing.T) {
	o := newOutputs()
	for range knownFrom {
		o.learn(3, 0, 50)
		o.learn(7, 0, 800)
	}
	short, shortVariance := o.of(3, 0)
	long, longVariance := o.of(7, 0)
	if math.Abs(short-50) > 1e-9 || math.Abs(long-800) > 1e-9 {
		t.Errorf("expected %v and %v tokens", short, long)
	}
	if spread := math.Sqrt(max(shortVariance, longVariance)); spread > 0.95*math.Sqrt(o.all.variance) {
		t.Errorf("spread by %v after 32 equal answers, all together by %v", spread, math.Sqrt(o.all.variance))
	}
	if all, _ := o.of(-1, 0); all < 200 || all > 600 {
		t.Errorf("of no kind: %v", all)
	}
	if other, _ := o.of(8, 0); other != o.all.mean {
		t.Errorf("of a kind never seen: %v", other)
	}
}

func TestAKindSpeaksForItselfByDegrees(t *testing.T) {
	o := newOutputs()
	for range 1000 {
		o.learn(-1, 0, 400)
	}
	last := o.all.mean
	for n := 1; n <= knownFrom; n++ {
		o.learn(5, 0, 40)
		mean, _ := o.of(5, 0)
		if mean >= last {
			t.Errorf("after %d answers of 40 tokens %v are expected, %v before", n, mean, last)
		}
		known := float64(n) / knownFrom
		if want := o.all.mean*(1-known) + 40*known; math.Abs(mean-want) > 1e-6 {
			t.Errorf("after %d answers: %v, want %v", n, mean, want)
		}
		last = mean
	}
}

func TestAnswersThatEndAtTheirLimitAreExpectedToDoSo(t *testing.T) {
	o := newOutputs()
	for range 200 {
		o.learn(3, 256, 256)
		o.learn(4, 1000, 300) // whose limit is never met
	}
	if mean, variance := o.of(3, 700); mean != 700 || variance != 0 {
		t.Errorf("of those that fill their limit: %v, %v", mean, variance)
	}
	if mean, variance := o.of(4, 1000); math.Abs(mean-300) > 1 || variance == 0 {
		t.Errorf("of those that do not: %v, %v", mean, variance)
	}
	if mean, _ := o.of(3, 0); math.Abs(mean-256) > 1 {
		t.Errorf("without a limit: %v", mean)
	}
	for range 200 {
		o.learn(3, 256, 100)
	}
	if mean, _ := o.of(3, 700); math.Abs(mean-100) > 10 {
		t.Errorf("after they have become shorter: %v", mean)
	}
}

func TestMeanAndSpreadFollowWhatIsSeen(t *testing.T) {
	o := newOutputs()
	rng := rand.New(rand.NewPCG(5, 3))
	mean, variance, n := 0.0, 0.0, 0.0
	for i := range 20_000 {
		o.learn(9, 0, int(300+100*rng.NormFloat64()))
		if i >= 5000 {
			m, v := o.of(9, 0)
			mean, variance, n = mean+m, variance+v, n+1
		}
	}
	if mean /= n; math.Abs(mean-300) > 5 {
		t.Errorf("mean %v", mean)
	}
	if spread := math.Sqrt(variance / n); math.Abs(spread-100) > 5 {
		t.Errorf("spread %v", spread)
	}
}

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
	plain := pick(t, b.Pool, Demand{PromptTokens: 1000, MostOutput: 64})
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
