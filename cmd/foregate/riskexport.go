package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/foregate/foregate/gateway/display"

	"github.com/foregate/foregate/tiers/evidence"
)

type riskExportCmd struct {
	where
	Route string        `help:"Only this route." placeholder:"NAME"`
	Since time.Duration `help:"Only audits that were begun in this time; without it all that the log has." placeholder:"DURATION"`
	Out   string        `default:"-" help:"Where to; - is the standard output (${default})." placeholder:"FILE"`
}

// Run writes the log. A file is there whole or not at all.
func (c *riskExportCmd) Run(e *env) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: want 0s or more")
	}
	b, err := c.bench(e)
	if err != nil {
		return err
	}
	defer b.close()
	var told auditCounts
	err = outTo(c.Out, e.stdout, func(w io.Writer) error { told, err = c.write(b, w); return err })
	if err != nil {
		return err
	}
	if told.n == 0 && c.Route != "" && b.routes != nil {
		if err := b.unknown(c.Route, nil); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(e.stderr, told.String()) // whoever reads may be gone
	return nil
}

// write writes the lines that are wanted.
func (c *riskExportCmd) write(b *bench, w io.Writer) (told auditCounts, err error) {
	var from time.Time
	if c.Since > 0 {
		now, err := b.redisNow()
		if err != nil {
			return told, err
		}
		from = now.Add(-c.Since)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	err = b.book.Log(b.ctx, func(e evidence.LogEntry) error {
		if c.Route != "" && e.Key.Route != c.Route || e.When.Before(from) {
			return nil
		}
		l := lineOf(e)
		if l.check() != nil { // what export writes import reads
			told.odd++
			return nil
		}
		told.add(e.Label)
		return out.Encode(l)
	})
	return told, err
}

// auditCounts are audits by their labels.
type auditCounts struct{ n, good, bad, lost, odd int }

func (t *auditCounts) add(label string) {
	t.n++
	switch label {
	case labelGood:
		t.good++
	case labelBad:
		t.bad++
	default:
		t.lost++
	}
}

func (t *auditCounts) String() string {
	text := fmt.Sprintf("%s: %d good, %d bad, %d lost or under way", display.Count(t.n, "audit", "audits"), t.good, t.bad, t.lost)
	if t.odd > 0 {
		text += fmt.Sprintf("; %d left out that no log should hold", t.odd)
	}
	return text
}

// outTo lets write fill a file, which takes its name when it is whole, or stdout.
func outTo(name string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if name == "-" || name == "" {
		out := bufio.NewWriter(stdout)
		if err := write(out); err != nil {
			return err
		}
		return out.Flush()
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return outInto(name, write) // a device or a pipe is not replaced
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // it may be closed
			_ = os.Remove(f.Name()) // it is nothing
		}
	}()
	out := bufio.NewWriter(f)
	if err := write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// outInto lets write fill what is there already.
func outInto(name string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("--out: %w", e)
		}
	}()
	out := bufio.NewWriter(f)
	if err := write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// inFrom lets read have a file, or the standard input where it is -.
func inFrom(ctx context.Context, name string, read func(io.Reader) error) error {
	if name == "-" {
		return ofFile(name, read(untilDone{ctx, os.Stdin}))
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	return ofFile(name, read(untilDone{ctx, f}))
}

// ofFile puts a file's name before an error.
func ofFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // of the one reading
	from io.Reader
}

// Read reads on.
func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
