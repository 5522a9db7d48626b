package chaos

import (
	"bufio"
	"context"
	_ "embed" // the clock's source
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// hostileRows are servers that no Redis would be.
func hostileRows() []Row {
	rows := []Row{{
		ID: "R17", Fault: "Redis' clock an hour ahead, an hour behind, correct again", Promise: "0 failed; + ≤ 15 ms; shared again ≤ 2 s after each jump",
		Recover: backAgain, Run: clockJumps,
	}}
	for i, h := range hostilities {
		rows = append(rows, Row{
			ID: "R16" + string(rune('a'+i)), Fault: "hostile answers: " + h.what, Promise: "0 failed; ≤ 64 MiB more memory; shared again ≤ 2 s",
			Short: h.short, Recover: backAgain, Run: hostile(h.say),
		})
	}
	return rows
}

// hostilities are what a fake says to everything.
var hostilities = []struct {
	what  string
	short bool
	say   func(w *bufio.Writer) error
}{
	{"a bulk of 900 GB", false, text("$966367641600\r\nx")},
	{"an array of 8 million", false, text("*8000000\r\n")},
	{"arrays a hundred thousand deep", false, text(strings.Repeat("*1\r\n", 100_000))},
	{"endless push frames", false, endless(">2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n")},
	{"an endless simple string", false, endless(strings.Repeat("x", 4096))},
	{"an endless bulk", false, func(w *bufio.Writer) error {
		if _, err := w.WriteString("$536870911\r\n"); err != nil {
			return err
		}
		return endless(strings.Repeat("x", 4096))(w)
	}},
	{"a map of maps in place of anything", false, text("%1\r\n+a\r\n%1\r\n+b\r\n*0\r\n")},
	{"no RESP at all", false, text("HTTP/1.1 400 Bad Request\r\n\r\n")},
	{"words of pub/sub with parts missing or of other types", true, gossip},
	{"every kind of RESP value at random", false, random},
	{"an integer where words belong", false, text(":9223372036854775807\r\n")},
}

func text(s string) func(*bufio.Writer) error {
	return func(w *bufio.Writer) error {
		_, err := w.WriteString(s)
		return err
	}
}

// endless repeats words until nobody listens; after 200 MB everything has been shown, and
// the machine is others' too.
func endless(s string) func(*bufio.Writer) error {
	return func(w *bufio.Writer) error {
		for sent := 0; sent < 200<<20; sent += len(s) {
			if _, err := w.WriteString(s); err != nil {
				return err
			}
		}
		return errors.New("enough")
	}
}

const maxHostile = 64 << 20 // bytes that a hostile server may make a gateway take

// hostile leads the gateways to a fake, and watches their memory.
func hostile(say func(*bufio.Writer) error) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		f, err := NewFakeServer(say)
		if err != nil {
			return err
		}
		w.Adopt(f.Close)
		lead := func(addr string) {
			for _, d := range w.Redis.Proxies {
				d.SetUpstream(addr)
				d.Cut()
			}
		}
		was := w.resident(ctx)
		maximum := 0.0
		err = w.Inject(ctx, 0, func() error {
			lead(f.Addr)
			return w.again(ctx, 100*time.Millisecond, func(ctx context.Context, _ *Server) error {
				for i, is := range w.resident(ctx) {
					maximum = max(maximum, is-was[i])
				}
				return nil
			})
		}, func() error {
			lead(w.Redis.Servers[0].Addr)
			return nil
		})
		w.Note("%.0f MB more memory", max(0, maximum)/1e6)
		if maximum > maxHostile {
			w.Fail("a gateway took %.0f MB more memory", maximum/1e6)
		}
		return err
	}
}

// resident is the resident memory of each gateway in bytes, 0 of one that does not
// answer.
func (w *Testbed) resident(ctx context.Context) (out []float64) {
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // one that does not answer has 0, and is found dead later
		out = append(out, m.Sum("process_resident_memory_bytes"))
	}
	return out
}

// clockSource is a library that makes a program's wall clock differ from the machine's.
//
//go:embed clock.c.txt
var clockSource string

// clockJumps restarts Redis with a clock that can be set, and sets it.
func clockJumps(ctx context.Context, w *Testbed) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		w.Note("not run: it needs a C compiler")
		return nil
	}
	source, library, offset := filepath.Join(w.Dir(), "clock.c"), filepath.Join(w.Dir(), "clock.so"), filepath.Join(w.Dir(), "offset")
	if err := os.WriteFile(source, []byte(clockSource), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, cc, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cc, err, out)
	}
	set := func(d time.Duration) error {
		return os.WriteFile(offset, fmt.Appendf(nil, "%-20d", int64(d/time.Second)), 0o600)
	}
	if err := set(0); err != nil {
		return err
	}
	s := w.Redis.Servers[0]
	s.env = []string{"LD_PRELOAD=" + library, "CHAOS_CLOCK=" + offset}
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := w.Settled(ctx, 15*time.Second); err != nil {
		return err
	}
	for _, d := range []time.Duration{time.Hour, -time.Hour, 0} {
		err := w.Inject(ctx, 300*time.Millisecond, func() error { return set(d) }, func() error { return nil })
		if err != nil {
			return err
		}
		now, err := s.Client.Time(ctx).Result()
		if err != nil {
			return err
		}
		if off := time.Until(now) - d; off.Abs() > time.Minute {
			return fmt.Errorf("the server's clock is off by %v beyond what was set", off)
		}
		if err := w.Hold(ctx, w.outage()); err != nil {
			return err
		}
		if !w.Shared(ctx) {
			w.Fail("a clock that is %v off: modes %v", d, w.Modes(ctx))
		}
	}
	return nil
}
