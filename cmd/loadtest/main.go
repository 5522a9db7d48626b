// Command loadtest measures the gateway: run makes a measurement that a scenario
// describes, agree holds its two kinds of run against each other, list tells what
// scenarios there are, check finds their mistakes.
//
// It only wires: flags become the Options of package live or the arguments of
// package virtual. Start at runCmd in run.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// cli is the command line.
type cli struct {
	Run   runCmd   `cmd:"" help:"Run a scenario and print what came of it."`
	Agree agreeCmd `cmd:"" help:"Run a scenario live and in virtual time, with several seeds, and say whether the two agree."`
	List  listCmd  `cmd:"" help:"List the scenarios."`
	Chaos chaosCmd `cmd:"" help:"Make faults under load and hold the gateway to what is promised under each."`
	Soak  soakCmd  `cmd:"" help:"Run a fleet for long under load with a fault a minute: account for every request, and tell whether anything grows."`
	Check checkCmd `cmd:"" help:"Check scenario files and say what is wrong with them."`

	Proof     proofCmd     `cmd:"" help:"Measure every claim of the page docs/proof.md and print what came of it."`
	Fleets    fleetsCmd    `cmd:"" help:"Seek the highest load of each of many fleets, and what a token costs in rent there (hours)."`
	Pair      pairCmd      `cmd:"" help:"Measure real pairs of models on vLLM and llama.cpp, on the CPU (.ci/need-engines sets them up): scores, what mode risk may serve, the guarantee, right answers."`
	ProofLive proofLiveCmd `cmd:"" help:"Measure a pair of engines that run already, as pair does, with its dollars."`
}

// env is what commands know of the process that runs them.
type env struct {
	ctx            context.Context // ends at SIGINT or SIGTERM
	args           []string
	stdout, stderr io.Writer
}

// say prints for the reader; run tells when that did not work.
func (e *env) say(format string, args ...any) { _, _ = fmt.Fprintf(e.stdout, format, args...) }

// warn prints beside the results.
func (e *env) warn(format string, args ...any) { _, _ = fmt.Fprintf(e.stderr, format, args...) }

// reader is who reads the standard output.
type reader struct {
	w   io.Writer
	err error // the first that writing met
}

// Write implements io.Writer. One who has hung up needs nothing more; a full disk must
// not pass for a result.
func (r *reader) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil && r.err == nil && !errors.Is(err, syscall.EPIPE) {
		r.err = err
	}
	return n, err
}

// errSilent ends a command whose complaints have been printed.
var errSilent = errors.New("")

// usageError is a command line that makes no sense.
type usageError struct{ error }

// misuse makes one.
func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is the program: 0 when it did what was asked, 1 when it could not, 2 when
// what was asked makes no sense.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal finds the default handler, and ends the process
	return runCtx(ctx, args, stdout, stderr)
}

// runCtx is run until ctx ends.
func runCtx(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	status := -1
	out := &reader{w: stdout}
	e := &env{ctx, args, out, stderr}
	parser, err := kong.New(&c, kong.Name("loadtest"), kong.Description("Measure the gateway against simulated or real backends."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { status = code }))
	if err != nil {
		e.warn("loadtest: %v\n", err)
		return 2
	}
	cmd, err := parser.Parse(args)
	if status >= 0 { // --help was asked for
		return status
	}
	if err != nil {
		e.warn("loadtest: %v\n", err)
		return 2
	}
	err = cmd.Run(e)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return 0
	}
	if !errors.Is(err, errSilent) {
		e.warn("loadtest: %v\n", err)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}
