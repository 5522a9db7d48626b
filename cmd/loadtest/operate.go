package main

import "github.com/foregate/foregate/loadtest/chaos"

type operateCmd struct {
	Short   bool     `help:"The chosen rows, faster than in front of real fleets: a minute."`
	Only    []string `placeholder:"ID,…" help:"Only the rows of these ids."`
	List    bool     `help:"List the rows and run none."`
	Gateway string   `placeholder:"PATH" help:"The gateway's binary, with vllmsim beside it; default foregate beside this program, then in PATH."`
	Out     string   `placeholder:"FILE" help:"Write the table to a file as well."`
	Again   int      `default:"0" help:"How often a row that breaks its promise is tried again; every try is in the table."`
	Scale   float64  `default:"1" help:"How many times longer than usual the phases of the whole form last."`
}

// Run does what operators do to a fleet under load, and prints what became of the requests.
func (c *operateCmd) Run(e *env) error {
	o := chaos.Options{Operations: true, Only: c.Only, Short: c.Short, Scale: c.Scale, Again: c.Again, Out: e.stdout, Say: e.warn}
	return runRows(e, o, c.Gateway, c.Out, c.List)
}
