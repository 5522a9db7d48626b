package main

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

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
	who, err := resolver(f, zerolog.Nop())
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	_, open, err := sealer(f.Cache)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	for _, w := range slices.Concat(warnings(f), who.Warnings(), open) {
		_, _ = fmt.Fprintf(e.stderr, "%s: warning: %s\n", c.File, w)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: ok: %d pools, %d routes, %d tenants\n", c.File, len(f.Pools), len(f.Routes), len(f.Tenants))
	return err
}

// warnings are what a sound file asks for and does not get.
func warnings(f *config.File) []string {
	var out []string
	for _, t := range f.Tenants {
		if n := f.Redis.Replicas; t.RPM > 0 && t.RPM < n {
			out = append(out, fmt.Sprintf("tenant %s: while Redis is away each of %d replicas lets in at least one request at once, so its rpm of %d may be exceeded", t.ID, n, t.RPM))
		}
	}
	return append(out, economyWarnings(f)...)
}
