package estimate

import (
	"math/rand/v2"
	"testing"
)

// growing is one answer under way: what it holds now, and what it has left.
type growing struct{ held, left int }

// simulated is by how much answers fill a cache further at the worst moment, if all grow by a
// token a step and give everything back when nothing is left of them.
func simulated(all []growing) int {
	now, longest := 0, 0
	for _, g := range all {
		now += g.held
		longest = max(longest, g.left)
	}
	maximum := now
	for step := 1; step <= longest; step++ {
		sum := 0
		for _, g := range all {
			if g.left >= step {
				sum += g.held + step
			}
		}
		maximum = max(maximum, sum)
	}
	return maximum - now
}

// speed is what these tests' backends have: 4,000 prompt tokens a second, 50 of an answer.
var speed = Speed{Prefill: 1.0 / 4000, Decode: 0.02}

// answer is a request whose prompt holds so much, of whose answer so much has come and so much
// is expected.
func answer(a *Account, prompt, came, output int) *Request {
	r := &Request{Began: start, Output: output}
	a.Start(r, Totals{Requests: 1, Waiting: 1, PromptTokens: prompt})
	a.FirstToken(r, start)
	r.came.Store(int32(came))
	return r
}

func TestTheForecastIsTheSimulationWithWhatIsLeftRoundedUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	truths, forecasts := 0.0, 0.0
	for range 500 {
		a := NewAccount(start)
		var exact, rounded []growing
		for range rng.IntN(30) {
			came, output := rng.IntN(500), 1+rng.IntN(1+rng.IntN(1500))
			r := answer(&a, rng.IntN(3000), came, output)
			left, _, _ := r.remaining(start, speed)
			exact = append(exact, growing{r.Totals().PromptTokens + came, left})
			rounded = append(rounded, growing{r.Totals().PromptTokens + came, spanEnd(span(left))})
		}
		got, truth := a.forecast.of(a.requests, start, speed).growth, simulated(exact)
		if int(got) != simulated(rounded) {
			t.Fatalf("forecast %v, simulated with half-octaves %d: %v", got, simulated(rounded), rounded)
		}
		if int(got) < truth {
			t.Fatalf("forecast %v, simulated %d: %v", got, truth, exact)
		}
		truths, forecasts = truths+float64(truth), forecasts+got
	}
	if forecasts > 1.5*truths {
		t.Errorf("forecast %v in all, simulated %v", forecasts, truths)
	}
}

func TestWhatIsLeftOfAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		came, output, limit int
		left, generated     int
	}{
		"nothing came":              {0, 200, 0, 200, 0},
		"half came":                 {100, 200, 0, 100, 100},
		"it nears its length":       {170, 200, 0, 50, 170}, // lengths have long tails
		"it has passed its length":  {1000, 200, 0, 50, 1000},
		"its limit is near":         {170, 200, 180, 10, 170},
		"it is at its limit":        {180, 200, 180, 0, 180},
		"more chunks than tokens":   {300, 200, 180, 0, 180},
		"one token":                 {0, 1, 0, 1, 0},
		"of no length":              {5, 0, 0, 1, 5},
		"its limit is far":          {10, 200, 100_000, 190, 10},
		"its limit is less":         {0, 200, 64, 64, 0},
		"past length, limit beyond": {500, 200, 4096, 50, 500},
	} {
		a := NewAccount(start)
		r := answer(&a, 100, c.came, c.output)
		r.MaxOutput = c.limit
		if left, generated, _ := r.remaining(start, speed); left != c.left || generated != c.generated {
			t.Errorf("%s: %d left and %d generated, want %d and %d", name, left, generated, c.left, c.generated)
		}
	}
}
