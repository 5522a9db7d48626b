package main

import (
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

// Run seeks the highest load of each fleet, and writes after each what is known.
func (c *fleetsCmd) Run(e *env) error {
	if c.Seeds < 1 || c.Seeds > 100 {
		return misuse("--seeds %d: want 1 to 100", c.Seeds)
	}
	found, err := fleets.Read(c.Out)
	if err != nil {
		return err
	}
	type job struct {
		fleet fleets.Fleet
		seed  uint64
	}
	var jobs []job
	for n := range uint64(c.Seeds) {
		for _, f := range fleets.Grid() {
			known := slices.ContainsFunc(found, func(k fleets.Found) bool { return k.Fleet == f.String() && k.Seed == n+1 })
			if f.Match(c.Only) && !known {
				jobs = append(jobs, job{f, n + 1})
			}
		}
	}
	queue := make(chan job, len(jobs))
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	if c.Workers < 1 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	for range c.Workers {
		all.Go(func() {
			for j := range queue {
				got, err := fleets.Search(e.ctx, j.fleet, j.seed)
				mu.Lock()
				if err == nil {
					found = append(found, got)
					err = c.write(found)
					e.warn("%d of %d: %s, seed %d: %.1f requests/s\n", len(found), len(jobs), got.Fleet, got.Seed, got.PerSecond)
				}
				if failed == nil {
					failed = err
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	e.say("%s", fleets.Table(found))
	return nil
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
