package pool

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// rented is a pool whose backends cost 0.001 USD a second.
var rented = Price{USDPerHour: 3.6}

func TestWorkCostsTheSameOnAnEmptyBackendAndOnAFullOne(t *testing.T) {
	b := newBench(t, Options{Price: Price{USDPerHour: 3.6, PrefillPerSecond: 2000, DecodePerSecond: 1000}, Backends: []string{"http://a"}})
	cost := func(took time.Duration) float64 {
		l := pick(t, b.Pool, Demand{PromptTokens: 1000})
		b.now = b.now.Add(took)
		defer l.Done(100)
		usd, known := l.Charge(l.Work(100))
		if !known {
			t.Error("the price is not known")
		}
		return usd
	}
	alone := cost(time.Second)
	for range 50 {
		defer pick(t, b.Pool, Demand{PromptTokens: 1000}).Done(0)
	}
	if full := cost(time.Minute); !within(alone, 0.001*(1000.0/2000+100.0/1000), 1e-9) || full != alone {
		t.Errorf("%g USD alone, %g among 50", alone, full)
	}
	unseen := pick(t, b.Pool, Demand{PromptTokens: 1000, OutputTokens: 100})
	defer unseen.Done(0)
	if w := unseen.Work(-1); w.Prompt != 1000 || w.Answer != 0 {
		t.Errorf("a call that had no time has made %+v", w)
	}
	b.now = b.now.Add(time.Hour)
	if w := unseen.Work(-1); w.Answer != unseen.output || w.Answer == 0 {
		t.Errorf("a call of an hour that nobody saw has made %+v", w)
	}
}

func TestAPromptCostsWithoutWhatIsCached(t *testing.T) {
	b := newBench(t, Options{Price: Price{USDPerHour: 3.6, PrefillPerSecond: 1000, DecodePerSecond: 1000}, Backends: []string{"http://a"}})
	parts := prefix.Head{Tenant: "t", First: []byte("x")}.Parts(4000)
	pick(t, b.Pool, Demand{PromptTokens: 1000, Parts: parts}).Done(1)
	l := pick(t, b.Pool, Demand{PromptTokens: 1000, Parts: parts})
	defer l.Done(0)
	if w := l.Work(0); w.Cached < 900 || w.Prompt != 1000 {
		t.Errorf("%+v of a prompt that was just computed", w)
	}
	l.SetPromptTokens(2000)
	if w := l.Work(0); w.Cached < 1800 || w.Prompt != 2000 {
		t.Errorf("%+v after it was counted", w)
	}
}

// TestAFullBackendsWorkAddsUpToItsRent: prompts are charged once, though a learned speed of answers has the time of prompts in it.
func TestAFullBackendsWorkAddsUpToItsRent(t *testing.T) {
	for name, share := range map[string]float64{"long prompts": 0.6, "short ones": 0.1, "all cached": 0} {
		b := newBench(t, Options{Price: rented, Backends: []string{"http://a"}})
		const decode, prefill = 2000.0, 8000.0 // tokens a second of either alone
		var work economy.Work
		for i := range 240 { // two minutes
			prompt, answer := 0.5*share*prefill, 0.5*(1-share)*decode
			b.tick(500*time.Millisecond, func(int) pressure.Reading {
				r := b.made(0, 64, answer)
				was := b.first().reading
				r.PromptTokens, r.PrefixHits = was.PromptTokens+prompt+100, was.PrefixHits+100
				return r
			})
			if i >= 120 {
				work.Prompt += int(prompt)
				work.Answer += int(answer)
			}
		}
		if got := economy.CostOfWork(b.TokenPrice(), work); !within(got, 60*0.001, .02) {
			t.Errorf("%s: a minute of work costs %g USD, the rent is %g", name, got, 60*0.001)
		}
	}
}

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
	b := newBench(t, Options{Price: rented}) // 0.001 USD per second
	b.crowd(2*time.Second, 40, 0.025)
	if b.TokenPrice().Known() {
		t.Error("costs are known of 2 s")
	}
	b.crowd(18*time.Second, 40, 0.025)
	if p := b.TokenPrice(); !within(p.Output, 0.001/1600, .01) || !within(p.Input, 0.25*0.001/1600, .01) {
		t.Errorf("without prompts: %+v; want about %g", p, 0.001/1600)
	}
	b.crowd(0, 0, 1) // what the readings show waits for nobody
	b.prompts(32, 500*time.Millisecond)
	if p := b.TokenPrice(); !within(p.Input, 0.001/2000, .05) || !within(p.Output, 0.001/1600, .01) {
		t.Errorf("got %+v; want about %g, %g", p, 0.001/2000, 0.001/1600)
	}
}

func TestAnIdleHourMakesNoTokenDear(t *testing.T) {
	b := newBench(t, Options{Price: rented})
	b.prompts(40, 500*time.Millisecond)
	b.crowd(5*time.Minute, 64, 0.040)
	b.crowd(time.Hour, 1, 0.015)
	if p := b.TokenPrice(); !within(p.Output, 0.001/1600, .02) {
		t.Errorf("got %+v; want about %g", p, 0.001/1600)
	}
	b.crowd(2*time.Minute, 64, 0.080) // busy again, and slower
	if p := b.TokenPrice(); !within(p.Output, 0.001/800, .05) {
		t.Errorf("got %+v, want about %g", p, 0.001/800)
	}
}

func TestWithoutReadingsAnswersTellWhatABackendMakes(t *testing.T) {
	b := newBench(t, Options{Price: rented, Backends: []string{"http://a"}})
	var all []*Lease
	var began []time.Time // their answers
	for range 40 {
		all = append(all, pick(t, b.Pool, Demand{PromptTokens: 100}))
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
	if p := b.TokenPrice(); !within(41/.025*p.Output+100*p.Input, 0.001, .1) {
		t.Errorf("got %+v; want %g for 41 answers' tokens of a second, and a prompt", p, 0.001)
	}
}

func TestWhatWasRememberedByTheRuleOfThumbIsRescaled(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	parts := prefix.Head{Tenant: "t", First: []byte("x")}.Parts(8000)
	l := pick(t, b.Pool, Demand{PromptBytes: 8000, Parts: parts})
	if got := b.first().cache.Placed(); got != 2001 {
		t.Fatalf("placed %v", got)
	}
	l.SetPromptTokens(4000)
	if got := b.first().cache.Placed(); math.Abs(got-4002) > 1e-6 {
		t.Errorf("placed %v after it was counted", got)
	}
	l.Done(1)
	// The next one is estimated by what was learned, and found warm.
	n := pick(t, b.Pool, Demand{PromptBytes: 8000, Parts: parts})
	if n.totals.prompt != 4001 || n.totals.queued > 1 {
		t.Errorf("held %d, to be computed %d", n.totals.prompt, n.totals.queued)
	}
	n.SetPromptTokens(4100)
	if got := b.first().cache.Placed(); math.Abs(got-4002) > 2 {
		t.Errorf("the second sample rescaled: %v", got)
	}
	n.Done(1)
}

func TestCountedPutsRightWhatIsHeldAndQueued(t *testing.T) {
	for name, c := range map[string]struct {
		counted     int
		first       bool // the first token came before
		held, queue int
	}{
		"longer":                      {1500, false, 1500, 1500},
		"shorter":                     {400, false, 400, 400},
		"longer, after first token":   {1500, true, 1500, 0},
		"shorter, after first token":  {400, true, 400, 0},
		"nothing is no count":         {0, false, 1000, 1000},
		"less than nothing is no one": {-3, false, 1000, 1000},
	} {
		b := newBench(t, Options{Backends: []string{"http://a"}})
		other := pick(t, b.Pool, Demand{PromptTokens: 10, OutputTokens: 20})
		l := pick(t, b.Pool, Demand{PromptTokens: 1000, OutputTokens: 100})
		if c.first {
			l.FirstToken()
		}
		l.SetPromptTokens(c.counted)
		other.Done(0)
		for _, a := range []totals{b.first().account.all, b.first().account.recent} {
			if a.requests != 1 || a.queued != c.queue || a.prompt != c.held {
				t.Errorf("%s: %+v, want %+v", name, a, c)
			}
		}
		l.Done(0)
		l.SetPromptTokens(77)
		if a := &b.first().account; a.all != (totals{}) || a.recent != (totals{}) {
			t.Errorf("%s: left behind %+v, %+v", name, a.all, a.recent)
		}
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
