package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
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

// starvedRows are gateways that are short of memory or of descriptors.
func starvedRows() []Row {
	return []Row{
		{
			ID: "G6", Fault: "one gateway with GOMEMLIMIT 64 MiB and 256 MiB in total: 300 prompts of 400 kB that their backend never answers", Added: -1,
			Promise: "stays alive; admin answers; recovers", Tolerated: []string{Shed, Unreached, TimedOut, CutSilent, "http_400", "http_413", "http_429", "http_502", "http_503", "http_504"},
			Setup: Setup{Under: "ulimit -d 262144\nexport GOMEMLIMIT=64MiB", Drafts: -1, Config: unlimited}, Run: heavy,
		},
		{
			ID: "G7", Fault: "one gateway with 256 descriptors, and 400 silent connections to it", Added: -1,
			Promise:   "its admin listener answers ≤ 1 s; 0 failed at the others; serves again ≤ 2 s after the end",
			Tolerated: []string{Unreached, TimedOut, "http_502", "http_503", "http_504"}, Recover: 2 * time.Second,
			Setup: Setup{Under: "ulimit -n 256"}, Run: hoarded,
		},
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

// hoarded holds all descriptors of the first gateway.
func hoarded(ctx context.Context, w *Testbed) error {
	w.balance()
	g := w.Gateways[0]
	h := &hoard{addr: g.listen, open: map[net.Conn]bool{}}
	asked, silent, worst := 0, 0, time.Duration(0)
	err := w.InjectUntil(ctx, 0, func() error {
		h.start(400)
		return w.repeat(ctx, w.Span(4*time.Second, 12*time.Second), 200*time.Millisecond, func() error {
			began := time.Now()
			_, err := g.Page(ctx, "/livez")
			asked, worst = asked+1, max(worst, time.Since(began))
			if err != nil {
				silent++
			}
			return nil
		})
	}, func() error {
		h.stop()
		return nil
	}, func(ctx context.Context) bool {
		return g.IsReady(ctx) && w.Shared(ctx) && w.Load.Send(g, usualLoad(0)).Kind == Answered
	})
	w.Note("%d connections taken; admin asked %d times, silent %d times, %v at most", h.peak, asked, silent, round(worst))
	w.Check(silent == 0, "the admin listener was silent %d times of %d", silent, asked)
	w.Within("the admin listener answered after", worst, time.Second)
	for _, o := range w.all() {
		w.Check(o.Kind == Answered || o.Gateway == 0, "at gateway %d: %s: %s", o.Gateway, o.Kind, o.Detail)
	}
	return err
}

// hoard opens connections on which nothing is said, and opens them again when they end.
type hoard struct {
	addr string
	peak int // at once, at most

	mu      sync.Mutex
	open    map[net.Conn]bool
	ended   bool
	running sync.WaitGroup
}

func (h *hoard) start(connections int) {
	for range connections {
		h.running.Go(func() {
			for h.one() {
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

// one holds one connection until it ends; false: enough.
func (h *hoard) one() (more bool) {
	c, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", h.addr)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		return !h.ended
	}
	defer func() { _ = c.Close() }() // nothing was said on it
	h.mu.Lock()
	more = !h.ended
	if more {
		h.open[c] = true
		h.peak = max(h.peak, len(h.open))
	}
	h.mu.Unlock()
	if more {
		_, _ = io.Copy(io.Discard, c) // to its end, whichever it is
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, c)
	return !h.ended
}

func (h *hoard) stop() {
	h.mu.Lock()
	h.ended = true
	for c := range h.open {
		_ = c.Close() // its goroutine sees that
	}
	h.mu.Unlock()
	h.running.Wait()
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

// switchRow is what operators reach for when all else fails.
func switchRow() Row {
	return Row{
		ID: "G11", Fault: "kill switch: shed.low, .normal and .high 0; then shed.allow_high yes", Short: true, Added: -1, Tolerated: []string{Shed},
		Promise: "in force ≤ 1 s; high needs the second setting; /admin/status lists the switches; ended ≤ 1 s after the reset", Run: switchedOff,
	}
}

// switchedOff sheds all of low and normal, then of high too, and ends that.
func switchedOff(ctx context.Context, w *Testbed) error {
	w.strikes()
	are := func(what string, high, others string) {
		w.Note("%s after %v", what, round(w.Until(ctx, time.Second, what, func() bool {
			return w.every(func(g *Gateway) bool {
				return !slices.ContainsFunc(priorities[:], func(class string) bool {
					want := others
					if class == "high" {
						want = high
					}
					return w.Load.Send(g, Request{Tenant: Tenants[0], Priority: class, Tokens: 3}).Kind != want
				})
			})
		})))
	}
	if err := w.server().do(ctx, "hset", settingsKey, "shed.low", 0, "shed.normal", 0, "shed.high", 0); err != nil {
		return err
	}
	are("low and normal shed, high not", Answered, Shed)
	err := w.Hold(ctx, w.Span(time.Second, 3*time.Second))
	for _, g := range w.Gateways {
		var s struct {
			Settings struct {
				Rejected []struct{ Name, Value string }
				Switches []string
			}
		}
		err = errors.Join(err, g.read(ctx, "/admin/status", &s))
		w.Check(len(s.Settings.Switches) > 0 && len(s.Settings.Rejected) == 1, "gateway %d shows the switches %q, refused %v", g.Number, s.Settings.Switches, s.Settings.Rejected)
	}
	if err := errors.Join(err, w.server().do(ctx, "hset", settingsKey, "shed.allow_high", "yes")); err != nil {
		return err
	}
	are("all shed", Shed, Shed)
	err = w.server().do(ctx, "del", settingsKey)
	are("nobody shed", Answered, Answered)
	return err
}
