package main

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/foregate/foregate/loadtest/fleets"
)

type fleetsCmd struct {
	Only    []string `sep:"none" placeholder:"WORD" help:"Only fleets whose name has this in it, such as h100-8b-fp8 or risk; may be given again: then all of them."`
	Seeds   int      `default:"3" help:"Runs of each, from seed 1 on."`
	Workers int      `help:"Searches at a time; default one for each processor."`
	Out     string   `type:"path" placeholder:"FILE" help:"Add what was found to this file, a list in JSON; what it has already is not sought again."`
}

// search is one that is to be made.
type search struct {
	fleet fleets.Fleet
	seed  uint64
}

// Run seeks the highest load of each fleet, and writes after each what is known.
func (c *fleetsCmd) Run(e *env) error {
	if c.Seeds < 1 || c.Seeds > 100 {
		return misuse("--seeds %d: want 1 to 100", c.Seeds)
	}
	found, err := fleets.Read(c.Out)
	if err != nil {
		return err
	}
	if found, err = c.all(e, c.wanted(found), found); err != nil {
		return err
	}
	e.say("%s", fleets.Table(found))
	return nil
}

// wanted are the searches that were asked for, without those that were made before.
func (c *fleetsCmd) wanted(found []fleets.Found) (all []search) {
	for n := range uint64(c.Seeds) {
		for _, f := range fleets.Grid() {
			known := slices.ContainsFunc(found, func(k fleets.Found) bool { return k.Fleet == f.String() && k.Seed == n+1 })
			if f.Match(c.Only) && !known {
				all = append(all, search{f, n + 1})
			}
		}
	}
	return all
}

// all makes searches, several at a time, and returns what is known then. The first error ends all.
func (c *fleetsCmd) all(e *env, wanted []search, found []fleets.Found) ([]fleets.Found, error) {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	queue := make(chan search, len(wanted))
	for _, s := range wanted {
		queue <- s
	}
	close(queue)
	if c.Workers < 1 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	var mu sync.Mutex
	var workers sync.WaitGroup
	done := 0
	for range c.Workers {
		workers.Go(func() {
			for s := range queue {
				got, err := fleets.Search(ctx, s.fleet, s.seed)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				found = append(found, got)
				err = c.write(found)
				done++
				e.warn("%d of %d: %s, seed %d: %.1f requests/s\n", done, len(wanted), got.Fleet, got.Seed, got.PerSecond)
				mu.Unlock()
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return found, context.Cause(ctx)
}

// write writes what was found so far.
func (c *fleetsCmd) write(found []fleets.Found) error {
	if c.Out == "" {
		return nil
	}
	text, err := json.MarshalIndent(found, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.Out, append(text, '\n'), 0o644) //nolint:gosec // a table for all to read
}
