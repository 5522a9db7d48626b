package chaos

import (
	"context"
	_ "embed" // the clock's source
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// clockRow is a Redis whose clock jumps.
func clockRow() Row {
	return Row{
		ID: "R17", Fault: "Redis' clock an hour ahead, an hour behind, correct again", Promise: "0 failed; + ≤ 15 ms; shared again ≤ 2 s after each jump",
		Recover: backAgain, Run: clockJumps,
	}
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
