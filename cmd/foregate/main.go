// Command foregate runs the gateway and looks after it: serve, demo, check, reload, settings, status, risk,
// drain, undrain, cache, usage, ready, plan, version.
//
// It only wires: flags and the configuration file become the Options of the
// packages that do the work. Start at cli in main.go.
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
	Serve    serveCmd    `cmd:"" help:"Run a gateway replica."`
	Demo     demoCmd     `cmd:"" help:"Run everything on this machine: simulated pools, embedded Redis, replicas behind one port, traffic."`
	Check    checkCmd    `cmd:"" help:"Check a configuration file and say what is wrong with it."`
	Reload   reloadCmd   `cmd:"" help:"Have a replica read its configuration file and the files that it names again."`
	Settings settingsCmd `cmd:"" help:"List and change the live settings, look at their history, and roll back."`
	Status   statusCmd   `cmd:"" help:"Tell how a replica stands."`
	Risk     riskCmd     `cmd:"" help:"Look at what audits have shown of drafts served unverified; export, import and forget it."`
	Drain    drainCmd    `cmd:"" help:"Send a backend no new requests, from any replica; running ones finish."`
	Undrain  undrainCmd  `cmd:"" help:"End a drain."`
	Cache    cacheCmd    `cmd:"" help:"Purge the cache of answers."`
	Usage    usageCmd    `cmd:"" help:"Tell what tenants used and what it cost, over all replicas."`
	Ready    readyCmd    `cmd:"" help:"Ask whether a replica can serve; the exit status tells, for health checks."`
	Plan     planCmd     `cmd:"" help:"Find the cheapest fleet that holds an SLO for a trace of requests, in the virtual lab, before anyone rents it."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// env is what commands know of the process that runs them.
type env struct {
	ctx            context.Context // ends at SIGINT or SIGTERM
	stdout, stderr io.Writer
}

// errSilent ends a command whose complaints have been printed.
var errSilent = errors.New("")

func run(args []string, stdout, stderr io.Writer) int {
	var c cli
	status := -1
	parser, err := kong.New(&c, kong.Name("foregate"),
		kong.Description("An OpenAI-compatible gateway that answers from a cheap draft pool first."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { status = code }))
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "foregate:", err)
		return 2
	}
	cmd, err := parser.Parse(args)
	if status >= 0 { // --help was asked for
		return status
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "foregate:", err)
		return 2
	}
	signal.Ignore(syscall.SIGPIPE) // a log whose reader has gone is a log less, not the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal finds the default handler, and ends the process
	switch err := cmd.Run(&env{ctx, stdout, stderr}); {
	case err == nil:
		return 0
	case errors.Is(err, errSilent):
		return 1
	default:
		_, _ = fmt.Fprintln(stderr, "foregate:", err)
		return 1
	}
}
