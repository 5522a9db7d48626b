// Command release builds what is published with a version: an archive for each platform, a list of
// what is in its programs (CycloneDX), and the SHA-256 of all of it. Start at release in this file.
//
// The same commit, version and Go give the same bytes, wherever and whenever they are built: no path,
// clock or user gets in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var r options
	var platforms string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&r.source, "source", "../..", "the repository's root")
	f.StringVar(&r.out, "out", "../../dist", "where the files go; files of former releases there are removed")
	f.StringVar(&r.version, "version", "", "the version; otherwise what git describe says")
	f.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "which to build for")
	if err := f.Parse(args); err != nil {
		return err
	}
	r.platforms = strings.Split(platforms, ",")
	if err := r.ask(ctx); err != nil {
		return err
	}
	files, err := release(ctx, r)
	for _, name := range files {
		_, _ = fmt.Fprintln(out, filepath.Join(r.out, name))
	}
	return err
}

// options say what is released.
type options struct {
	source, out       string
	version, revision string
	made              time.Time // of the commit; every file has it
	platforms         []string  // GOOS/GOARCH
}

// commands are the programs in an archive, papers the files beside them.
var (
	commands = []string{"foregate", "vllmsim", "loadtest"}
	papers   = []string{"README.md", "LICENSE", "CHANGELOG.md"}
)

// ask fills in what git knows.
func (o *options) ask(ctx context.Context) error {
	var err error
	if o.version == "" {
		if o.version, err = output(ctx, o.source, "git", "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if o.revision, err = output(ctx, o.source, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	text, err := output(ctx, o.source, "git", "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	o.made = time.Unix(seconds, 0).UTC()
	return err
}

// safe is what may be part of a file's name and of a linker's flag.
var safe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// release builds everything, and returns the names of the files in out.
func release(ctx context.Context, o options) ([]string, error) {
	if !safe.MatchString(o.version) || !safe.MatchString(o.revision) {
		return nil, fmt.Errorf("version %q of revision %q: want up to 64 of letters, digits and . _ + -", o.version, o.revision)
	}
	if err := clear(o.out); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "foregate-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }() // what is left of it is in the system's way to be cleared
	var files []string
	for _, platform := range o.platforms {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok {
			return files, fmt.Errorf("platform %q: want GOOS/GOARCH", platform)
		}
		bin := filepath.Join(work, goos+"_"+goarch)
		if err := build(ctx, o, bin, goos, goarch); err != nil {
			return files, fmt.Errorf("%s: %w", platform, err)
		}
		name := fmt.Sprintf("foregate_%s_%s_%s", o.version, goos, goarch)
		if err := pack(o, bin, name); err != nil {
			return files, fmt.Errorf("%s: %w", platform, err)
		}
		if err := writeSBOM(o, bin, name); err != nil {
			return files, fmt.Errorf("%s: %w", platform, err)
		}
		files = append(files, name+".tar.gz", name+".cdx.json")
	}
	return append(files, sums), writeSums(o.out, files)
}

// clear makes out, and removes what a release put there before: nothing else.
func clear(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"foregate_*.tar.gz", "foregate_*.cdx.json", sums} {
		old, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// build compiles the programs into dir. The flags are those of the Makefile and the Dockerfile; the
// environment's own are left out, so that the builder's do not get in.
func build(ctx context.Context, o options, dir, goos, goarch string) error {
	args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.stampedVersion=" + o.version + " -X main.stampedRevision=" + o.revision, "-o", dir + string(filepath.Separator)}
	for _, c := range commands {
		args = append(args, "./cmd/"+c)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// output is what a command prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	text, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, e.Stderr)
	}
	return strings.TrimSpace(string(text)), err
}
