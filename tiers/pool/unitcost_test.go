package pool

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// within reports whether got is want but for a share.
func within(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// crowd has the pool's backends work for a while with so many requests at once each, of
// which one takes step seconds per token, as readings tell it.
func (b *bench) crowd(d time.Duration, running int, step float64) {
	b.tick(500*time.Millisecond, func(i int) pressure.Reading { return b.made(i, running, 0) })
	for range int(d / (500 * time.Millisecond)) {
		b.tick(500*time.Millisecond, func(i int) pressure.Reading {
			return b.made(i, running, 0.5*float64(running)/step)
		})
	}
}

// made is a reading after so many more tokens.
func (b *bench) made(i, running int, tokens float64) pressure.Reading {
	r := works(running, float64(b.now.UnixMilli()%1_000_000_000))
	r.At = b.now
	r.GenerationTokens = (*b.set.Load())[i].reading.GenerationTokens + tokens
	return r
}

// prompts sends so many prompts of 1,000 tokens, one after the other.
func (b *bench) prompts(n int, took time.Duration) {
	b.t.Helper()
	for range n {
		l := pick(b.t, b.Pool, Demand{PromptTokens: 1000})
		b.now = b.now.Add(took)
		l.FirstToken()
		l.Done(1)
	}
}

func TestATokenCostsWhatABusyBackendMakesOfItsPrice(t *testing.T) {
	b := newBench(t, Options{USDPerHour: 3.6}) // 0.001 USD per second
	if _, _, ok := b.UnitCosts(); ok {
		t.Error("costs are known of nothing")
	}
	b.prompts(31, 500*time.Millisecond)
	b.crowd(20*time.Second, 40, 0.025)
	if _, _, ok := b.UnitCosts(); ok {
		t.Error("costs are known of 31 prompts")
	}
	b.crowd(0, 0, 1) // what the readings show waits for nobody
	b.prompts(1, 500*time.Millisecond)
	prefill, decode, ok := b.UnitCosts()
	if !ok || !within(prefill, 0.001/2000, .05) || !within(decode, 0.001/1600, .01) {
		t.Errorf("got %g, %g, %t; want about %g, %g", prefill, decode, ok, 0.001/2000, 0.001/1600)
	}
}

func TestAnIdleHourMakesNoTokenDear(t *testing.T) {
	b := newBench(t, Options{USDPerHour: 3.6})
	b.prompts(40, 500*time.Millisecond)
	b.crowd(5*time.Minute, 64, 0.040)
	b.crowd(time.Hour, 1, 0.015)
	if _, decode, ok := b.UnitCosts(); !ok || !within(decode, 0.001/1600, .02) {
		t.Errorf("got %g, %t; want about %g", decode, ok, 0.001/1600)
	}
	b.crowd(2*time.Minute, 64, 0.080) // busy again, and slower
	if _, decode, _ := b.UnitCosts(); !within(decode, 0.001/800, .05) {
		t.Errorf("got %g, want about %g", decode, 0.001/800)
	}
}

func TestWithoutReadingsAnswersTellWhatABackendMakes(t *testing.T) {
	b := newBench(t, Options{USDPerHour: 3.6, Backends: []string{"http://a"}})
	var all []*Lease
	var began []time.Time // their answers
	for range 40 {
		all = append(all, pick(t, b.Pool, Demand{PromptTokens: 1000}))
	}
	for _, l := range all {
		b.now = b.now.Add(500 * time.Millisecond)
		l.FirstToken()
		began = append(began, b.now)
	}
	// Each that ends is followed by another, so that the crowd stays.
	for range 64 {
		next := pick(t, b.Pool, Demand{PromptTokens: 100})
		next.FirstToken()
		all, began = append(all, next), append(began, b.now)
		b.now = b.now.Add(time.Second)
		all[0].Done(1 + int(b.now.Sub(began[0])/(25*time.Millisecond)))
		all, began = all[1:], began[1:]
	}
	if _, decode, ok := b.UnitCosts(); !ok || !within(decode, 0.001/(41/.025), .02) {
		t.Errorf("got %g, %t; want about %g", decode, ok, 0.001/(41/.025))
	}
}
