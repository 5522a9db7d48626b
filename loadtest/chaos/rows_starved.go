package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// starvedRows are gateways that are short of memory or of descriptors.
func starvedRows() []Row {
	return []Row{
		{
			ID: "G6", Fault: "one gateway with GOMEMLIMIT 64 MiB and 256 MiB in total: 300 prompts of 400 kB that their backend never answers", Added: -1,
			Promise: "stays alive; admin answers; recovers", Tolerated: []string{Shed, Unreached, TimedOut, CutSilent, "http_400", "http_413", "http_429", "http_502", "http_503", "http_504"},
			Setup: Setup{Under: onlyFirst("ulimit -d 262144\nexport GOMEMLIMIT=64MiB"), Drafts: -1, Config: unlimited}, Run: heavy,
		},
		{
			ID: "G7", Fault: "one gateway with 256 descriptors, and 400 silent connections to it", Added: -1,
			Promise:   "its admin listener answers ≤ 1 s; 0 failed at the others; serves again ≤ 2 s after the end",
			Tolerated: []string{Unreached, TimedOut, "http_502", "http_503", "http_504"}, Recover: 2 * time.Second,
			Setup: Setup{Under: onlyFirst("ulimit -n 256")}, Run: hoarded,
		},
	}
}

// onlyFirst are words before the first gateway alone.
func onlyFirst(words string) func(*Testbed, int) string {
	return func(_ *Testbed, i int) string {
		if i == 0 {
			return words
		}
		return ""
	}
}

// resident is a gateway's memory, in MB; 0 when it does not tell.
func resident(ctx context.Context, g *Gateway) float64 {
	m, _ := g.Metrics(ctx) // as said
	v, _ := m.Value("process_resident_memory_bytes")
	return v / 1e6
}

// hoarded holds all descriptors of the first gateway.
func hoarded(ctx context.Context, w *Testbed) error {
	w.Balance()
	g := w.Gateways[0]
	h := &hoard{addr: g.listen, maxConns: 400}
	asked, silent, worst := 0, 0, time.Duration(0)
	err := w.InjectUntil(ctx, 0, func() error {
		h.start()
		for end := time.Now().Add(w.Span(4*time.Second, 12*time.Second)); time.Now().Before(end); {
			began := time.Now()
			_, err := g.Page(ctx, "/livez")
			asked, worst = asked+1, max(worst, time.Since(began))
			if err != nil {
				silent++
			}
			if err := w.Hold(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		h.stop()
		return nil
	}, func(ctx context.Context) bool {
		return g.Ready(ctx) && w.Shared(ctx) && w.Load.Send(g, usualLoad(0)).Kind == Answered
	})
	if err != nil {
		return err
	}
	w.Note("%d connections taken; admin asked %d times, silent %d times, %v at most", h.peak, asked, silent, round(worst))
	if silent > 0 || worst > w.TimerLag.Bound(time.Second) {
		w.Fail("the admin listener was silent %d times of %d, %v at most", silent, asked, round(worst))
	}
	w.only(0)
	return nil
}

// hoard opens connections on which nothing is said, and opens them again when they end.
type hoard struct {
	addr     string
	maxConns int
	peak     int // at once, at most

	mu      sync.Mutex
	open    map[net.Conn]bool
	ended   bool
	running sync.WaitGroup
}

func (h *hoard) start() {
	h.open = map[net.Conn]bool{}
	for range h.maxConns {
		h.running.Go(func() {
			for h.one() {
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

// one holds one connection until it ends; false: enough.
func (h *hoard) one() bool {
	c, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", h.addr)
	h.mu.Lock()
	if h.ended || err != nil {
		if err == nil {
			_ = c.Close() // nothing was said on it
		}
		defer h.mu.Unlock()
		return !h.ended
	}
	h.open[c] = true
	h.peak = max(h.peak, len(h.open))
	h.mu.Unlock()
	_, _ = io.Copy(io.Discard, c) // to its end, whichever it is
	_ = c.Close()
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
	const prompts = 300
	g := w.Gateways[0]
	l := w.StartLoad(1, nil)
	l.Stop()
	text := strings.Repeat("the harbour and the sea ", 400_000/24)
	seen, maximum, asked, silent := map[string]int{}, 0.0, 0, 0
	err := w.InjectUntil(ctx, 0, func() error {
		for _, s := range w.Targets {
			if err := s.SetFault(vllmsim.Fault{Hang: "headers"}); err != nil {
				return err
			}
		}
		w.Load.Pause(true)
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range prompts {
			all.Go(func() { // each of its own, so that none waits for another's answer
				o := l.Send(g, Request{Tenant: Tenants[0], Priority: "low", Tokens: 10, Prompt: fmt.Sprint(i, " ", text)})
				mu.Lock()
				defer mu.Unlock()
				seen[o.Kind]++
			})
		}
		over := make(chan struct{})
		go func() { all.Wait(); close(over) }()
		for {
			select {
			case <-over:
				return nil
			case <-time.After(100 * time.Millisecond):
				is := resident(ctx, g)
				if asked++; is == 0 {
					silent++
				}
				maximum = max(maximum, is)
			}
		}
	}, func() error {
		for _, s := range w.Targets {
			if err := s.SetFault(vllmsim.Fault{}); err != nil {
				return err
			}
		}
		return nil
	}, w.Shared)
	w.Note("%s; resident at most %.0f MB; admin asked %d times, silent %d times", kinds(seen), maximum, asked, silent)
	if silent > 0 {
		w.Fail("the admin listener was silent %d times of %d", silent, asked)
	}
	if err != nil {
		return err
	}
	w.Until(ctx, 20*time.Second, "it answers again", func() bool { return w.Load.Send(g, usualLoad(0)).Kind == Answered })
	w.Load.Pause(false)
	return nil
}
