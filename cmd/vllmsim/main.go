// Command vllmsim runs one simulated vLLM server until it is interrupted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

type flags struct {
	Listen      string  `default:"127.0.0.1:8000" help:"Address to listen on."`
	Model       string  `default:"sim" help:"Served model name."`
	Profile     string  `default:"a10g-8b" help:"Speeds and sizes of one model on one GPU."`
	Divergence  float64 `default:"0" help:"How far this model strays from the target of the same seed, 0 to 1."`
	Seed        uint64  `default:"1" help:"Seed of the language; a draft and its target share it."`
	TimeScale   float64 `default:"1" help:"How many times faster than the profile time runs."`
	Metrics     string  `default:"v1" enum:"v0,v1" help:"Generation of metric names: v0 or v1."`
	MaxModelLen int     `default:"131072" help:"Context length; never more than the KV cache holds."`
	Policy      string  `default:"fcfs" enum:"fcfs,priority" help:"Scheduling policy: fcfs or priority."`
	Blocks      int     `default:"0" help:"KV blocks instead of the profile's."`
	MaxNumSeqs  int     `default:"0" help:"Sequences at once instead of the profile's."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, args, out, errs)
}

// serve runs until ctx ends.
func serve(ctx context.Context, args []string, out, errs io.Writer) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, kong.Name("vllmsim"), kong.Description("A vLLM server without a GPU."),
		kong.Writers(out, errs), kong.Exit(func(code int) { exit = code }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 { // --help has been printed
		return exit
	}
	if err != nil {
		return fail(errs, err)
	}
	s, err := vllmsim.New(vllmsim.Options{Model: f.Model, Profile: f.Profile, Divergence: f.Divergence, Seed: f.Seed,
		TimeScale: f.TimeScale, Metrics: f.Metrics, MaxModelLen: f.MaxModelLen, Policy: f.Policy,
		BlocksOverride: f.Blocks, MaxNumSeqs: f.MaxNumSeqs})
	if err == nil {
		err = s.Start(f.Listen)
	}
	if err != nil {
		return fail(errs, err)
	}
	_, _ = fmt.Fprintf(out, "vllmsim: %s (%s, divergence %g) on %s\n", f.Model, f.Profile, f.Divergence, s.URL())
	<-ctx.Done()
	if err := s.Terminate(); err != nil {
		return fail(errs, err)
	}
	return 0
}

func fail(errs io.Writer, err error) int {
	_, _ = fmt.Fprintln(errs, "vllmsim:", err)
	return 1
}
