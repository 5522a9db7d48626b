package chaos

import (
	"strings"
	"testing"
	"time"
)

func TestEveryRowSaysWhatItPromisesAndHasAnIDOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rows() {
		if r.ID == "" || r.Fault == "" || r.Promise == "" || r.Run == nil {
			t.Errorf("row %+q is not whole", r.ID)
		}
		if seen[r.ID] {
			t.Errorf("two rows are called %s", r.ID)
		}
		seen[r.ID] = true
	}
}

func TestALoadBalancerBelievesSoManyChecksInARowAndNoFewer(t *testing.T) {
	start := time.Unix(0, 0)
	for name, c := range map[string]struct {
		checks Checks
		heard  string // y ready, n not
		in     string // y in turn after it
		window time.Duration
	}{
		"well":                    {Checks{Falls: 2, Rises: 2}, "yyy", "yyy", 0},
		"one failure is none":     {Checks{Falls: 2, Rises: 2}, "ynynyn", "yyyyyy", 0},
		"two in a row":            {Checks{Falls: 2, Rises: 2}, "ynny", "yynn", 0},
		"back after two":          {Checks{Falls: 2, Rises: 2}, "nnyy", "ynny", 3 * time.Second},
		"a success is none":       {Checks{Falls: 2, Rises: 2}, "nnynyy", "ynnnny", 5 * time.Second},
		"in a hurry":              {Checks{Falls: 1, Rises: 1}, "nyny", "nyny", time.Second},
		"an old failure is over":  {Checks{Falls: 2, Rises: 1}, "nyynny", "yyyyny", 2 * time.Second},
		"patient with a new life": {Checks{Falls: 1, Rises: 3}, "nyyy", "nnny", 3 * time.Second},
	} {
		r := rotation{checks: c.checks}
		var in strings.Builder
		var longest time.Duration
		for i, word := range c.heard {
			ok, window := r.recordCheck(word == 'y', start.Add(time.Duration(i)*time.Second))
			longest = max(longest, window)
			in.WriteByte("ny"[map[bool]int{true: 1}[ok]])
		}
		if in.String() != c.in || longest != c.window {
			t.Errorf("%s: %s after %s, want %s; out for %v, want %v", name, in.String(), c.heard, c.in, longest, c.window)
		}
	}
}

func TestAGatewayThatIsOutOfTurnIsNotAsked(t *testing.T) {
	all := []*Gateway{{Number: 0}, {Number: 1}, {Number: 2}}
	l := &Load{gateways: func() []*Gateway { return all }}
	for _, want := range []*Gateway{all[1], all[2], all[0], nil} {
		g := l.turn(4)
		if g != want {
			t.Errorf("asked is %v, want %v", g, want)
		}
		if g != nil {
			g.OutOfTurn.Store(true)
		}
	}
}

func TestAnAnswerIsWhatTheEnginesSayToTheLetterWithItsTokens(t *testing.T) {
	known := map[Question]EngineAnswer{{"q", 3}: {"the blue sea", 3}}
	one := func(kind, text string, tokens int) Outcome {
		return Outcome{Kind: kind, Prompt: "q", MaxTokens: 3, Text: text, Tokens: tokens}
	}
	n, sample := untrue([]Outcome{
		one(Answered, "the blue sea", 3), one(Answered, "the blue", 3), {Kind: Answered, Prompt: "another", MaxTokens: 3, Text: "the blue sea", Tokens: 3},
		one(Unreached, "", 0), one(Answered, "the blue sea", 2),
	}, known)
	if n != 3 || sample != `"the blue sea" of 2 tokens for "the blue sea" of 3` {
		t.Errorf("%d are not, such as %s", n, sample)
	}
}

func TestTheLoadOfOperationsHasAllKindsAndKnownAnswers(t *testing.T) {
	all, err := promptsByLength()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []bool{true, false} {
		if maximum := beyond(paceOf(form).delay); all[2].MaxTokens < maximum {
			t.Errorf("no three answers have %d tokens, the third has %d", maximum, all[2].MaxTokens)
		}
	}
	seen := map[string]bool{}
	for n := range 48 {
		r := operatedLoad(n)
		if r.Prompt == "" {
			t.Fatalf("request %d has no prompt", n)
		}
		seen[r.Priority+map[bool]string{true: " stream", false: " JSON"}[r.Stream]] = true
		seen[map[bool]string{true: "long", false: "short"}[r.Tokens == longTokens]+map[bool]string{true: " stream", false: " JSON"}[r.Stream]] = true
		seen[strings.Join(r.Header["X-Tier"], "")] = true
	}
	for _, want := range []string{"high stream", "normal stream", "low stream", "high JSON", "normal JSON", "low JSON", "long stream", "short stream", "target", ""} {
		if !seen[want] {
			t.Errorf("no request is %q: %v", want, seen)
		}
	}
}
