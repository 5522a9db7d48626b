package chaos

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// overloadRow offers ten times what two small backends can do.
func overloadRow() Row {
	return Row{
		ID: "G8", Fault: "10 × overload", Added: -1, Tolerated: []string{Shed},
		Promise: "no high request shed; goodput ≥ 95 % of the capacity measured before without shedding; first byte of class high, p99, ≤ 2 s; resident ≤ 256 MB",
		Setup: Setup{Drafts: -1, Rate: -1, Settings: shortWaits, Config: unlimited, Sim: func(o *vllmsim.Options) {
			o.TimeScale, o.BlocksOverride = 1, 1000 // about 80 answers of 150 tokens at once on each
		}}, Run: overload,
	}
}

const (
	overloadTimes = 10
	goodput       = 0.95            // of the capacity
	maxHighTTFT   = 2 * time.Second // an engine with a hundred answers takes five times as long for a step
	maxResident   = 256.0           // MB
	crowdClients  = 180             // that ask again at once, so that both backends are always just full
	crowdTokens   = 150             // on average, of answers without end
)

// shortWaits keep the crowd at the gateways within what the client can have under way.
var shortWaits = map[string]string{"shed.max_wait_low": "500ms", "shed.max_wait_normal": "3s"}

// notShedding has all shed at the edge of memory, and nothing foreseen: no shedding.
var notShedding = map[string]string{
	"shed.low": "1", "shed.normal": "1", "shed.high": "1", "shed.forecast": "no", "shed.max_wait_low": "1m", "shed.max_wait_normal": "1m", "shed.max_wait_high": "1m",
}

func overload(ctx context.Context, w *Testbed) error {
	quiet := w.StartLoad(4, func(n int) Request { return crowdRequest(n, "high") })
	if err := w.Hold(ctx, w.Span(4*time.Second, 15*time.Second)); err != nil {
		return err
	}
	quiet.Stop()
	capacity, answers, err := w.capacity(ctx)
	if err != nil {
		return err
	}
	w.injections++
	w.Phase(During)
	all := w.StartLoad(overloadTimes*answers, func(n int) Request {
		switch {
		case n%120 == 0: // what is kept free for high is enough for it
			return crowdRequest(n, "high")
		case n%20 == 1:
			return crowdRequest(n, "normal")
		}
		return crowdRequest(n, "low")
	})
	all.Phase(During)
	if err := w.Hold(ctx, 3*time.Second); err != nil { // until it is full
		return err
	}
	made, maximum, began := w.generated(ctx), 0.0, time.Now()
	for end := began.Add(w.Span(8*time.Second, 60*time.Second)); time.Now().Before(end); {
		for _, g := range w.Gateways {
			maximum = max(maximum, resident(ctx, g))
		}
		if err := w.Hold(ctx, time.Second); err != nil {
			return err
		}
	}
	rate := (w.generated(ctx) - made) / time.Since(began).Seconds()
	all.Stop()
	w.overloaded(quiet, all, rate/capacity, maximum)
	w.Note("capacity %.0f tokens, %.1f answers a second; offered %d times that", capacity, answers, overloadTimes)
	return nil
}

// crowdRequest varies the length, so that answers do not all end together. Those of high
// are streams, whose first byte is looked at; thousands of other chunks a second would
// measure the client.
func crowdRequest(n int, class string) Request {
	return Request{Tenant: Tenants[n%2], Priority: class, Stream: class == "high", Tokens: crowdTokens/2 + n*37%crowdTokens}
}

// capacity is how many tokens, and answers, a second the backends make when they always
// have enough to do and nobody is shed.
func (w *Testbed) capacity(ctx context.Context) (tokens, answers float64, err error) {
	if err := w.set(ctx, notShedding); err != nil {
		return 0, 0, err
	}
	if err := w.Hold(ctx, 1200*time.Millisecond); err != nil { // in force everywhere
		return 0, 0, err
	}
	l := w.StartLoad(1, nil)
	l.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var crowd sync.WaitGroup
	for i := range crowdClients {
		crowd.Go(func() {
			for n := i; ctx.Err() == nil; n += crowdClients {
				l.Keep(l.send(w.Gateways[n%len(w.Gateways)], n, crowdRequest(n, "normal")))
			}
		})
	}
	if err := w.Hold(ctx, 3*time.Second); err != nil { // until it is full
		return 0, 0, err
	}
	made, sent, began := w.generated(ctx), l.Sent(), time.Now()
	err = w.Hold(ctx, w.Span(6*time.Second, 20*time.Second))
	span := time.Since(began).Seconds()
	tokens, answers = (w.generated(ctx)-made)/span, float64(l.Sent()-sent)/span
	cancel()
	crowd.Wait()
	whole := context.WithoutCancel(ctx)
	if err := w.Redis.Servers[0].Client.Del(whole, settingsKey).Err(); err != nil {
		return 0, 0, err
	}
	if err := w.set(whole, shortWaits); err != nil {
		return 0, 0, err
	}
	time.Sleep(1200 * time.Millisecond) // as above
	return tokens, max(answers, 1), err
}

// generated is how many tokens the targets have made.
func (w *Testbed) generated(ctx context.Context) (sum float64) {
	for _, s := range w.Targets {
		page, _ := process.Fetch(ctx, s.URL()+"/metrics") // ours always answers
		sum += Metrics(page).Sum("vllm:generation_tokens_total")
	}
	return sum
}

// overloaded holds what came of it to the promise.
func (w *Testbed) overloaded(quiet, all *Load, good, maximum float64) {
	shed, high := map[string]int{}, 0
	var firstHigh []time.Duration
	for _, o := range all.Outcomes() {
		switch {
		case o.Kind == Shed:
			shed[o.Class]++
		case o.Class == "high" && o.Kind == Answered:
			firstHigh = append(firstHigh, o.First)
		}
		if o.Class == "high" {
			high++
		}
	}
	slices.Sort(firstHigh)
	unloaded := firsts(quiet.Outcomes(), true)
	if len(firstHigh) == 0 || len(unloaded) == 0 {
		w.Fail("no request of high was answered")
		return
	}
	is, was := firstHigh[len(firstHigh)*99/100], unloaded[len(unloaded)*99/100]
	w.Note("goodput %.0f %% of the capacity; high's first byte, p50 %v, p99 of %d: %v, unloaded %v; shed: %s; resident at most %.0f MB",
		100*good, round(firstHigh[len(firstHigh)/2]), high, round(is), round(was), kinds(shed), maximum)
	if good < goodput {
		w.Fail("goodput is %.0f %% of the capacity", 100*good)
	}
	if is > w.TimerLag.Bound(maxHighTTFT) {
		w.Fail("high waits %v for its first byte, unloaded %v", round(is), round(was))
	}
	if shed["high"] > 0 || shed["low"] == 0 {
		w.Fail("shed: %s", kinds(shed))
	}
	if maximum > maxResident {
		w.Fail("resident %.0f MB", maximum)
	}
}
