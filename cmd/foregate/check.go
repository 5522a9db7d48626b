package main

import (
	"fmt"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
)

type checkCmd struct {
	File string `arg:"" help:"The configuration file." type:"path"`
}

// Run prints every mistake of a file, or what it configures.
func (c *checkCmd) Run(e *env) error {
	f, err := config.Load(c.File)
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return errSilent
	}
	found, err := app.Check(f)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	for _, w := range found.Warnings {
		_, _ = fmt.Fprintf(e.stderr, "%s: warning: %s\n", c.File, w)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: ok: %d pools, %d routes, %d tenants\n", c.File, len(f.Pools), len(f.Routes), found.Tenants)
	return err
}
