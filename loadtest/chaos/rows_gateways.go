package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// killedRow ends gateways as a crash would.
func killedRow() Row {
	return Row{
		ID: "G3", Fault: "SIGKILL of one gateway after the other, repeatedly", Short: true, Added: -1, Tolerated: []string{Unreached, CutSilent},
		Promise: "only its requests in flight are lost; its readings taken over ≤ 2 s; shared again ≤ 2 s after its start",
		Recover: backAgain, Run: killedOver,
	}
}

// takenOver is how old a reading may become when its reader dies.
const takenOver = 2 * time.Second

// killedOver kills gateways by turns and starts them again, and watches how old the
// readings of the others become.
func killedOver(ctx context.Context, w *Testbed) error {
	w.balance()
	times, oldest := 20, 0.0
	if w.Short() {
		times = 3
	}
	look := func() {
		for _, g := range w.Gateways {
			m, _ := g.Metrics(ctx) // one that does not answer has no readings
			_ = m.Each("foregate_scrape_age_seconds", func(_ string, age float64) { oldest = max(oldest, age) })
		}
	}
	kills := map[int][]time.Time{}
	for n := range times {
		g := w.Gateways[n%len(w.Gateways)]
		err := w.Inject(ctx, 0, func() error {
			g.Kill()
			kills[g.Number] = append(kills[g.Number], time.Now())
			return w.repeat(ctx, w.Span(2500*time.Millisecond, 4*time.Second), 100*time.Millisecond, func() error { look(); return nil })
		}, func() error { return g.Start(ctx) })
		if err != nil {
			return err
		}
	}
	w.Load.Stop()
	lost := 0
	for _, o := range w.Load.Outcomes() {
		if o.Kind == Answered {
			continue
		}
		lost++
		w.Check(slices.ContainsFunc(kills[o.Gateway], func(at time.Time) bool {
			return o.At.Before(at.Add(balanceEvery)) && at.Before(o.At.Add(o.Total+balanceEvery))
		}), "%s at gateway %d, which was not killed then: %s", o.Kind, o.Gateway, o.Detail)
	}
	w.Note("%d kills; %d lost, all with their gateway; no reading of the others older than %.2f s; %d tried elsewhere", times, lost, oldest, w.Load.Elsewhere())
	w.Within("a reading was old", time.Duration(oldest*float64(time.Second)), takenOver)
	return nil
}

// heavyRow is a gateway that is short of memory.
func heavyRow() Row {
	return Row{
		ID: "G6", Fault: "one gateway with GOMEMLIMIT 64 MiB and 256 MiB in total: 300 prompts of 400 kB that their backend never answers", Added: -1,
		Promise: "stays alive; admin answers; recovers", Tolerated: []string{Shed, Unreached, TimedOut, CutSilent, "http_400", "http_413", "http_429", "http_502", "http_503", "http_504"},
		Setup: Setup{Under: "ulimit -d 262144\nexport GOMEMLIMIT=64MiB", Drafts: -1, Config: unlimited}, Run: heavy,
	}
}

// unlimited takes all limits out of a configuration.
func unlimited(_ *Testbed, _ int, file map[string]any) {
	EachTenant(file, func(_ int, t map[string]any) {
		delete(t, "rpm")
		delete(t, "tpm")
	})
}

// resident is a gateway's memory, in MB; 0 when it does not tell.
func resident(ctx context.Context, g *Gateway) float64 {
	return g.sum(ctx, "process_resident_memory_bytes") / 1e6
}

// heavy sends prompts of 400 kB at once to the first gateway, whose answers do not come.
func heavy(ctx context.Context, w *Testbed) error {
	g := w.Gateways[0]
	l := w.StartLoad(Traffic{})
	text := strings.Repeat("the harbour and the sea ", 400_000/24)
	seen, maximum, asked, silent := map[string]int{}, 0.0, 0, 0
	set := func(f vllmsim.Fault) error {
		return each(w.Targets, func(s *vllmsim.Server) error { return s.SetFault(f) })
	}
	err := w.InjectUntil(ctx, 0, func() error {
		w.Load.Pause(true)
		if err := set(vllmsim.Fault{Hang: "headers"}); err != nil {
			return err
		}
		answered := make(chan string)
		for i := range 300 {
			go func() { // each of its own, so that none waits for another's answer
				answered <- l.Send(g, Request{Tenant: Tenants[0], Priority: "low", Tokens: 10, Prompt: fmt.Sprint(i, " ", text)}).Kind
			}()
		}
		for over := 0; over < 300; {
			select {
			case kind := <-answered:
				seen[kind]++
				over++
			case <-time.After(100 * time.Millisecond):
				is := resident(ctx, g)
				if asked++; is == 0 {
					silent++
				}
				maximum = max(maximum, is)
			}
		}
		return nil
	}, func() error { return set(vllmsim.Fault{}) }, w.Shared)
	w.Note("%s; resident at most %.0f MB; admin asked %d times, silent %d times", kinds(seen), maximum, asked, silent)
	w.Check(silent == 0, "the admin listener was silent %d times of %d", silent, asked)
	if err == nil {
		w.Until(ctx, 20*time.Second, "it answers again", func() bool { return w.Load.Send(g, usualLoad(0)).Kind == Answered })
	}
	w.Load.Pause(false)
	return err
}
