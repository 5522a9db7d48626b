package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/foregate/foregate/loadtest/chaos"
)

type chaosCmd struct {
	Short   bool     `help:"The chosen rows, with shorter phases: a few minutes."`
	Only    []string `placeholder:"ID,…" help:"Only the rows of these ids."`
	Part    string   `placeholder:"K/N" help:"Of these rows every Nth from the Kth on, so that N programs can share them."`
	List    bool     `help:"List the rows and run none."`
	Gateway string   `placeholder:"PATH" help:"The gateway's binary; default foregate beside this program, then in PATH."`
	Out     string   `placeholder:"FILE" help:"Write the table to a file as well."`
	Again   int      `default:"0" help:"How often a row that breaks its promise is tried again; every try is in the table."`
	Scale   float64  `default:"1" help:"How many times longer than usual the phases of the whole form last."`
}

// Run makes faults and prints what came of them.
func (c *chaosCmd) Run(e *env) (err error) {
	o := chaos.Options{Only: c.Only, Short: c.Short, Scale: c.Scale, Again: c.Again, Out: e.stdout, Say: e.warn}
	if c.Part != "" {
		if _, err := fmt.Sscanf(c.Part, "%d/%d", &o.Part, &o.Parts); err != nil || o.Part < 1 || o.Part > o.Parts || o.Parts > 9 {
			return misuse("--part %q is not K/N with 1 ≤ K ≤ N ≤ 9", c.Part)
		}
	}
	if o.Again < 0 || o.Again > 10 {
		return misuse("--again %d is not 0 … 10", o.Again)
	}
	if o.Scale <= 0 {
		return misuse("--scale %v is not above 0", o.Scale)
	}
	rows, err := chaos.Choose(&o)
	if err != nil {
		return usageError{err}
	}
	if c.List {
		for i := range rows {
			e.say("%-4s %s\n     %s\n", rows[i].ID, rows[i].Fault, rows[i].Promise)
		}
		return nil
	}
	if o.Gateway, err = gatewayBinary(c.Gateway); err != nil {
		return err
	}
	if c.Out != "" {
		f, err := os.Create(c.Out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.Out = io.MultiWriter(e.stdout, f)
	}
	if err := chaos.Run(e.ctx, o); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return nil
}
