package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeFile lets write fill a file, which takes its name when it is whole, or stdout.
func writeFile(name string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if name == "-" || name == "" {
		out := bufio.NewWriter(stdout)
		if err := write(out); err != nil {
			return err
		}
		return out.Flush()
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeInto(name, write) // a device or a pipe is not replaced
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

// writeInto lets write fill what is there already.
func writeInto(name string, write func(io.Writer) error) (err error) {
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

// readFile lets read have a file, or the standard input where it is -.
func readFile(ctx context.Context, name string, read func(io.Reader) error) error {
	if name == "-" {
		return withFileName(name, read(untilDone{ctx, os.Stdin}))
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	return withFileName(name, read(untilDone{ctx, f}))
}

// withFileName puts a file's name before an error.
func withFileName(name string, err error) error {
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
