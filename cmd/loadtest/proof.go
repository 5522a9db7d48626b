package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/cost"
	"github.com/foregate/foregate/loadtest/proof"
)

type proofCmd struct {
	Only    []string `placeholder:"ID,…" help:"Only these claims; their ids are on the page."`
	Short   bool     `help:"The claims of the short form, with one seed and one round."`
	Seeds   int      `default:"5" help:"Seeds of each run in virtual time, and rounds of what is live (1 to 20)."`
	Virtual bool     `help:"Only what is computed in virtual time."`
	Cost    string   `placeholder:"FILE" help:"What the benchmark of the gateway's cost wrote (FOREGATE_COST_JSON), to print and to check; the page has the figures of make bench."`
	Check   bool     `help:"Fail if a virtual figure differs from the committed one, or a live one is worse by more than their spread."`
	Write   bool     `help:"Write the figures, docs/proof.md and the README's table. Run it in the repository's root."`
	Gateway string   `placeholder:"PATH" help:"The gateway's binary; default foregate beside this program, then in PATH."`
}

// Run measures claims and prints them.
func (c *proofCmd) Run(e *env) error {
	o, err := c.options(e)
	if err != nil {
		return err
	}
	committed, err := proof.Committed()
	if err != nil {
		return err
	}
	o.Fleets = committed.Parts.Fleets
	results, err := proof.Run(e.ctx, o)
	if err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	document := &proof.Document{Claims: o.Claims, Results: results, Parts: committed.Parts}
	e.say("%s", document.Text())
	var bad []string
	if c.Check {
		bad = results.Differences(committed.Results, o.Claims)
	}
	if len(c.Only) == 0 && !c.Short {
		results.FillIn(committed.Results) // what was not measured stays
		results.TakeCosts(o.Claims, committed.Parts.Overhead)
	}
	if c.Write {
		if err := document.Write("."); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("proof: not as committed:\n%s", strings.Join(bad, "\n"))
	}
	return nil
}

// options checks the flags.
func (c *proofCmd) options(e *env) (o proof.Options, err error) {
	switch {
	case c.Seeds < 1 || c.Seeds > 20:
		return o, misuse("--seeds %d: want 1 to 20", c.Seeds)
	case c.Write && (c.Short || len(c.Only) > 0):
		return o, misuse("--write takes all claims in the whole form")
	}
	o = proof.Options{
		Tables: len(c.Only) == 0 && !c.Short, Seeds: c.Seeds, Rounds: c.Seeds,
		Say: func(format string, args ...any) { e.warn(format+"\n", args...) },
	}
	if o.Claims, err = proof.Choose(c.Only, c.Short); err != nil {
		return o, usageError{err}
	}
	if c.Short {
		o.Seeds, o.Rounds = 1, 1
	}
	if c.Cost != "" {
		if o.Costs, err = cost.Read(c.Cost); err != nil {
			return o, err
		}
	}
	if !c.Virtual {
		gateway, err := gatewayBinary(c.Gateway)
		if err != nil {
			return o, err
		}
		o.Faults = faults(gateway)
	}
	return o, nil
}

// faults runs rows of the fault suite once and returns what they measured, in seconds.
func faults(gateway string) func(context.Context, []string) (map[string]float64, error) {
	return func(ctx context.Context, ids []string) (map[string]float64, error) {
		out := map[string]float64{}
		err := chaos.Run(ctx, chaos.Options{
			Only: ids, Short: true, Gateway: gateway, Out: io.Discard, Say: func(string, ...any) {},
			Seen: func(id string, r *chaos.Result) { out[id] = r.Figure.Seconds() },
		})
		if errors.Is(err, chaos.ErrBroken) { // the figure stands on the page
			err = nil
		}
		return out, err
	}
}
