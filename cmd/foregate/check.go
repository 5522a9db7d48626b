package main

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/reload"
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
	files := reload.New(reload.Options{Logger: zerolog.Nop()})
	who, err := resolver(f, files)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	_, open, err := sealer(f.Cache)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	for _, w := range slices.Concat(warnings(f, who.Tenants()), readableSecrets(files), open) {
		_, _ = fmt.Fprintf(e.stderr, "%s: warning: %s\n", c.File, w)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: ok: %d pools, %d routes, %d tenants\n", c.File, len(f.Pools), len(f.Routes), len(who.Tenants()))
	return err
}

// readableSecrets tell of the files of secrets that too many may read. (The log of serve tells of them, too.)
func readableSecrets(files *reload.Watcher) []string {
	var out []string
	for _, s := range files.States() {
		if s.Open {
			out = append(out, s.Setting+": every user of this machine may read the file; take the permission away (chmod o-r)")
		}
	}
	return out
}

// warnings are what a sound file asks for and does not get.
func warnings(f *config.File, tenants []identity.Tenant) []string {
	var out []string
	for _, t := range tenants {
		if n := f.Redis.Replicas; t.RPM > 0 && t.RPM < n {
			out = append(out, fmt.Sprintf("tenant %s: while Redis is away each of %d replicas lets in at least one request at once, so its rpm of %d may be exceeded", t.ID, n, t.RPM))
		}
	}
	return append(out, economyWarnings(f)...)
}
