package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
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
var speed = estimate.Speed{Prefill: 1.0 / 4000, Decode: 0.02}

// answering is a request whose prompt holds so much, of whose answer so much has come and so much is expected.
func answering(prompt, came, output int) *Lease {
	l := &Lease{start: began, first: began, answers: 1, output: output, totals: totals{requests: 1, prompt: prompt}}
	l.came.Store(int32(came))
	return l
}

func TestTheForecastIsTheSimulationWithWhatIsLeftRoundedUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	truths, forecasts := 0.0, 0.0
	for range 500 {
		var leases []*Lease
		var exact, rounded []growing
		for range rng.IntN(30) {
			came, output := rng.IntN(500), 1+rng.IntN(1+rng.IntN(1500))
			l := answering(rng.IntN(3000), came, output)
			leases = append(leases, l)
			left, _, _ := l.remaining(began, speed)
			exact = append(exact, growing{l.totals.prompt + came, left})
			rounded = append(rounded, growing{l.totals.prompt + came, spanEnd(span(left))})
		}
		got, truth := new(growth).of(leases, began, speed).tokens, simulated(exact)
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
		l := answering(100, c.came, c.output)
		l.maxOutput = c.limit
		if left, generated, _ := l.remaining(began, speed); left != c.left || generated != c.generated {
			t.Errorf("%s: %d left and %d generated, want %d and %d", name, left, generated, c.left, c.generated)
		}
	}
}

func TestTheOutlookIsOfOurRequestsAndOfThoseTakenToBeLikeThem(t *testing.T) {
	type facts struct {
		candidate
		round
		backend
	}
	type f = *facts
	m := &mean{prompt: 500, output: 200, variance: 10_000}
	margin := func(variance float64) float64 { return 3*math.Sqrt(variance) + 5000 }
	for name, c := range map[string]struct {
		ours int // requests of ours that have begun to answer, with 100 tokens to come each
		asks int // of ours whose prompt of 1,000 tokens is being computed
		set  func(f)
		want candidate
	}{
		"nothing is there":              {0, 0, func(f) {}, candidate{margin: 5000}},
		"one of ours":                   {1, 0, func(f f) { f.running = 1 }, candidate{growth: 128, margin: margin(100)}},
		"one of ours, three like it":    {1, 0, func(f f) { f.running = 4 }, candidate{growth: 4 * 128, margin: margin(400)}},
		"four of others, like the mean": {0, 0, func(f f) { f.running = 4 }, candidate{growth: 4 * 100, margin: margin(40_000)}},
		"the last block is half full":   {0, 0, func(f f) { f.running, f.blockSize = 4, 16 }, candidate{growth: 4*100 + 4*8, margin: margin(40_000)}},
		"others that wait":              {0, 0, func(f f) { f.waiting = 2 }, candidate{growth: 200, margin: margin(20_000), othersTokens: 1000}},
		"a prompt of ours":              {0, 1, func(f) {}, candidate{growth: 128, margin: margin(100), ownPartly: 1000}},
		"a prompt, half of it seen": {0, 1, func(f f) { f.reading.At = began.Add(125 * time.Millisecond) },
			candidate{growth: 128, margin: margin(100), ownPartly: 500}},
		"three of ours, another replica": {0, 3, func(f f) { f.replicas = 2 },
			candidate{growth: 5 * 128, margin: margin(500), ownPartly: 3000, othersTokens: 2000}},
		"of two engines each has half": {0, 0, func(f f) { f.running, f.reading.Engines = 4, 2 }, candidate{growth: 200, margin: margin(20_000)}},
	} {
		f := facts{candidate: candidate{capacity: 100_000}, round: round{now: began, replicas: 1}, backend: backend{speed: speed, account: account{using: map[prefix.Key]int{}}}}
		for range c.ours {
			f.account.begin(&Lease{start: began, first: began, answers: 1, output: 100, variance: 100, totals: totals{requests: 1, prompt: 1000}})
			f.account.noteRead(began.Add(time.Second), began) // it knows the request
		}
		for range c.asks {
			f.account.begin(&Lease{start: began, answers: 1, output: 100, variance: 100, totals: totals{requests: 1, waiting: 1, queued: 1000, prompt: 1000}})
		}
		c.set(&f)
		got := &f.candidate
		f.forecast(got, m, &f.round, speed)
		off := math.Abs(got.growth-c.want.growth) + math.Abs(got.margin-c.want.margin) +
			math.Abs(got.ownPartly-c.want.ownPartly) + math.Abs(got.othersTokens-c.want.othersTokens)
		if off > 1e-6 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
