package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// starvedRows are gateways that are short of something: memory, descriptors, a reader of
// their log.
func starvedRows() []Row {
	return []Row{
		{
			ID: "G6", Fault: "one gateway with GOMEMLIMIT 64 MiB and 256 MiB in total: 300 prompts of 400 kB that their backend never answers", Added: -1,
			Promise: "stays alive; admin answers; recovers", Tolerated: []string{Shed, Unreached, TimedOut, CutSilent, "http_400", "http_413", "http_429", "http_502", "http_503", "http_504"},
			Setup: Setup{Under: onlyFirst("ulimit -d 262144\nexport GOMEMLIMIT=64MiB"), Drafts: -1, Config: without("rpm", "tpm")}, Run: heavy,
		},
		{
			ID: "G7", Fault: "one gateway with 256 descriptors, and 400 silent connections to it", Added: -1,
			Promise:   "its admin listener answers ≤ 1 s; 0 failed at the others; serves again ≤ 2 s after the end",
			Tolerated: []string{Unreached, TimedOut, "http_502", "http_503", "http_504"}, Recover: 2 * time.Second,
			Setup: Setup{Under: onlyFirst("ulimit -n 256")}, Run: hoarded,
		},
		logRow(Row{
			ID: "G13", Fault: "logs into pipes without a reader",
			Promise: "requests continue; + ≤ 15 ms; dropped lines are counted, at the latest 2 s after reading starts",
		}, unread),
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

// logRow has the logs of all gateways go into pipes.
func logRow(r Row, run func(context.Context, *Testbed, []*os.File) error) Row {
	var pipes []*os.File
	r.Setup.Prepare = func(w *Testbed) error {
		pipes = nil
		for i := range w.Setup.Gateways {
			path := filepath.Join(w.Dir(), fmt.Sprintf("log-%d", i))
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0) // whoever writes finds an open end
			if err != nil {
				return err
			}
			w.Adopt(func() error { _ = f.Close(); return nil }) // the row may have done so
			pipes = append(pipes, f)
		}
		return nil
	}
	r.Setup.Under = func(_ *Testbed, i int) string { return "exec 2>'" + pipes[i].Name() + "'" }
	r.Run = func(ctx context.Context, w *Testbed) error { return run(ctx, w, pipes) }
	return r
}

// unread has each gateway log more than it can keep, and then reads.
func unread(ctx context.Context, w *Testbed, pipes []*os.File) error {
	const lines = 8000 // more than wait at once, with what the pipe and the buffer take
	w.injections++
	w.Phase(During)
	var all sync.WaitGroup
	for _, g := range w.Gateways {
		all.Go(func() { chatter(ctx, g, lines) })
	}
	all.Wait()
	if err := w.Hold(ctx, w.Span(time.Second, 10*time.Second)); err != nil {
		return err
	}
	w.Note("%d lines each, dropped %v", lines, w.dropped(ctx))
	var reading sync.WaitGroup
	for _, f := range pipes {
		reading.Go(func() { _, _ = io.Copy(io.Discard, f) }) // until it is closed, after the gateways' end
	}
	w.Adopt(func() error {
		for _, f := range pipes {
			_ = f.Close() // it was only read
		}
		reading.Wait()
		return nil
	})
	w.Until(ctx, 2*time.Second, "the dropped lines are counted", func() bool { return !slices.Contains(w.dropped(ctx), 0) })
	w.Note("as counted when somebody reads %v", w.dropped(ctx))
	return nil
}

// dropped is how many lines of its log each gateway has counted as lost.
func (w *Testbed) dropped(ctx context.Context) (out []float64) {
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // one that does not answer counts none
		n, _ := m.Value("foregate_log_lines_dropped_total")
		out = append(out, n)
	}
	return out
}

// chatter asks for what is not there; each time is a line of the log.
func chatter(ctx context.Context, g *Gateway, times int) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range times {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.Base()+"/nothing", http.NoBody)
		if err != nil {
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection is kept
		_ = resp.Body.Close()
	}
}
