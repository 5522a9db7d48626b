package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// hotRow is a client that asks too much.
func hotRow() Row {
	return Row{
		ID: "C17", Fault: "a tenant with 60 requests a minute sends 100 a second", Short: true, Added: -1, Tolerated: []string{Limited},
		Promise: "429 only for this tenant; at most its limit is admitted; p99 of the others ≤ 1.2 × that without it",
		Setup:   Setup{Rate: -1, Config: hotLimit}, Run: hotTenant,
	}
}

const hotRPM = 60

func hotLimit(_ *Testbed, _ int, file map[string]any) {
	EachTenant(file, func(i int, t map[string]any) {
		if i == 0 {
			delete(t, "tpm")
			t["rpm"] = hotRPM
		}
	})
}

// hotTenant measures the second tenant alone, and then beside the first.
func hotTenant(ctx context.Context, w *Testbed) error {
	of := func(tenant string) func(int) Request {
		return func(n int) Request {
			r := usualLoad(n)
			r.Tenant = tenant
			return r
		}
	}
	others := w.StartLoad(Traffic{Rate: usualRate, Next: of(Tenants[1])})
	span := w.Span(4*time.Second, 15*time.Second)
	if err := w.Hold(ctx, span); err != nil {
		return err
	}
	w.strikes()
	hot := w.StartLoad(Traffic{Rate: 100 * hotRPM / 60, Next: of(Tenants[0])})
	hot.Phase(During)
	if err := w.Hold(ctx, span); err != nil {
		return err
	}
	hot.Stop()
	others.Stop()
	served, refused, untold := 0, 0, 0
	for _, o := range hot.Outcomes() {
		switch o.Kind {
		case Answered:
			served++
		case Limited:
			refused++
			if o.Header.Get("Retry-After") == "" {
				untold++
			}
		}
	}
	was, is := p99(others.Outcomes(Before)), p99(others.Outcomes(During))
	w.Note("the hot one: %d answered, %d refused in %v; the others' p99 %v, alone %v", served, refused, span, round(is), round(was))
	for _, o := range others.Outcomes() {
		w.Check(o.Kind == Answered, "another tenant: %s: %s", o.Kind, o.Detail)
	}
	maximum := hotRPM*span.Minutes()*1.02 + 3 + 1
	w.Check(float64(served) <= maximum, "the hot tenant had %d requests answered, at most %.0f are due", served, maximum)
	w.Check(untold == 0 && refused > 0, "%d refused, %d without Retry-After", refused, untold)
	w.Within("the others' p99", is, time.Duration(1.2*float64(was)))
	return nil
}

// overloadRow offers ten times what two small backends can do.
func overloadRow() Row {
	return Row{
		ID: "G8", Fault: "10 × overload", Added: -1, Tolerated: []string{Shed},
		Promise: "no high request shed; goodput ≥ 95 % of the capacity measured before without shedding; first byte of class high, p99, ≤ 2 s; resident ≤ 256 MB",
		Setup: Setup{Drafts: -1, Rate: -1, Settings: shortWaits, Config: unlimited, Sim: func(_ string, o *vllmsim.Options) {
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
	untilFull     = 3 * time.Second
	inForceAll    = 1200 * time.Millisecond // settings, everywhere
)

// shortWaits keep the crowd at the gateways within what the client can have under way.
var shortWaits = map[string]string{"shed.max_wait_low": "500ms", "shed.max_wait_normal": "3s"}

// notShedding has all shed at the edge of memory, and nothing foreseen: no shedding.
var notShedding = map[string]string{
	"shed.low": "1", "shed.normal": "1", "shed.high": "1", "shed.forecast": "no", "shed.max_wait_low": "1m", "shed.max_wait_normal": "1m", "shed.max_wait_high": "1m",
}

func overload(ctx context.Context, w *Testbed) error {
	quiet := w.StartLoad(Traffic{Rate: 4, Next: func(n int) Request { return crowdRequest(n, "high") }})
	if err := w.Hold(ctx, w.Span(4*time.Second, 15*time.Second)); err != nil {
		return err
	}
	quiet.Stop()
	capacity, answers, err := w.capacity(ctx)
	if err != nil {
		return err
	}
	w.strikes()
	all := w.StartLoad(Traffic{Rate: overloadTimes * answers, Next: func(n int) Request {
		switch {
		case n%120 == 0: // what is kept free for high is enough for it
			return crowdRequest(n, "high")
		case n%20 == 1:
			return crowdRequest(n, "normal")
		}
		return crowdRequest(n, "low")
	}})
	all.Phase(During)
	if err := w.Hold(ctx, untilFull); err != nil {
		return err
	}
	made, maximum, began := w.generated(ctx), 0.0, time.Now()
	err = w.repeat(ctx, w.Span(8*time.Second, 60*time.Second), time.Second, func() error {
		for _, g := range w.Gateways {
			maximum = max(maximum, resident(ctx, g))
		}
		return nil
	})
	rate := (w.generated(ctx) - made) / time.Since(began).Seconds()
	all.Stop()
	w.overloaded(quiet, all, rate/capacity, maximum)
	w.Note("capacity %.0f tokens, %.1f answers a second; offered %d times that", capacity, answers, overloadTimes)
	return err
}

// crowdRequest varies the length, so that answers do not all end together. Those of high
// are streams, whose first byte is looked at; thousands of other chunks a second would
// measure the client.
func crowdRequest(n int, class string) Request {
	return Request{Tenant: Tenants[n%2], Priority: class, Stream: class == "high", Tokens: crowdTokens/2 + n*37%crowdTokens}
}

// capacity is how many tokens, and answers, a second the backends make when they always
// have enough to do and nobody is shed.
func (tb *Testbed) capacity(ctx context.Context) (tokens, answers float64, err error) {
	if err := errors.Join(tb.set(ctx, notShedding), tb.Hold(ctx, inForceAll)); err != nil {
		return 0, 0, err
	}
	l := tb.StartLoad(Traffic{})
	crowded, cancel := context.WithCancel(ctx)
	defer cancel()
	var crowd sync.WaitGroup
	for i := range crowdClients {
		crowd.Go(func() {
			for n := i; crowded.Err() == nil; n += crowdClients {
				l.Keep(l.send(tb.Gateways[n%len(tb.Gateways)], n, crowdRequest(n, "normal")))
			}
		})
	}
	err = tb.Hold(ctx, untilFull)
	made, sent, began := tb.generated(ctx), l.Sent(), time.Now()
	err = errors.Join(err, tb.Hold(ctx, tb.Span(6*time.Second, 20*time.Second)))
	span := time.Since(began).Seconds()
	tokens, answers = (tb.generated(ctx)-made)/span, float64(l.Sent()-sent)/span
	cancel()
	crowd.Wait()
	return tokens, max(answers, 1), errors.Join(err, tb.server().do(ctx, "del", settingsKey), tb.set(ctx, shortWaits), tb.Hold(ctx, inForceAll))
}

// generated is how many tokens the targets have made.
func (tb *Testbed) generated(ctx context.Context) (sum float64) {
	for _, s := range tb.Targets {
		page, _ := process.Fetch(ctx, s.URL()+"/metrics") // ours always answers
		sum += process.Metrics(page).Sum("vllm:generation_tokens_total")
	}
	return sum
}

// overloaded holds what came of it to the promise.
func (tb *Testbed) overloaded(quiet, all *Load, good, maximum float64) {
	shed, high := map[string]int{}, []Outcome{}
	for _, o := range all.Outcomes() {
		if o.Kind == Shed {
			shed[o.Class]++
		}
		if o.Class == "high" {
			high = append(high, o)
		}
	}
	firstHigh := firsts(high, true)
	is, was := at(firstHigh, 99), at(firsts(quiet.Outcomes(), true), 99)
	tb.Note("goodput %.0f %% of the capacity; high's first byte, p50 %v, p99 of %d: %v, unloaded %v; shed: %s; resident at most %.0f MB",
		100*good, round(at(firstHigh, 50)), len(high), round(is), round(was), kinds(shed), maximum)
	tb.Check(is > 0 && was > 0, "no request of high was answered")
	tb.Check(good >= goodput, "goodput is %.0f %% of the capacity", 100*good)
	tb.Within("high waits for its first byte", is, maxHighTTFT)
	tb.Check(shed["high"] == 0 && shed["low"] > 0, "shed: %s", kinds(shed))
	tb.Check(maximum <= maxResident, "resident %.0f MB", maximum)
}
