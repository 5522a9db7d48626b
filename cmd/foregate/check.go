package main

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/operator"
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
	if err := addSecrets(f, files); err != nil {
		_, _ = fmt.Fprintf(e.stderr, "%s: %v\n", c.File, err)
		return errSilent
	}
	for _, w := range slices.Concat(warnings(f, who.Tenants()), readableSecrets(files)) {
		_, _ = fmt.Fprintf(e.stderr, "%s: warning: %s\n", c.File, w)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: ok: %d pools, %d routes, %d tenants\n", c.File, len(f.Pools), len(f.Routes), len(who.Tenants()))
	return err
}

// addSecrets reads the files of seal keys, passwords and tokens that a configuration names.
func addSecrets(f *config.File, files *reload.Watcher) error {
	if _, err := sealer(f.Cache, files, zerolog.Nop()); err != nil {
		return err
	}
	held, err := passwordsOf(f.Redis)
	if err != nil {
		return err
	}
	for _, file := range held.files() {
		if err := files.Add(file); err != nil {
			return err
		}
	}
	if f.AdminTokensFile == "" {
		return nil
	}
	return files.Add(adminTokensFile(f, operator.New(operator.Options{}).Apply))
}

// readableSecrets tell of the files of secrets that too many may read. (The log of serve tells of them, too.)
func readableSecrets(files *reload.Watcher) []string {
	var out []string
	for _, s := range files.States() {
		if s.WorldReadable {
			out = append(out, s.Setting+": every user of this machine may read the file; take the permission away (chmod o-r)")
		}
	}
	return out
}

// warnings are what a sound file asks for and does not get, and what it leaves open.
func warnings(f *config.File, tenants []identity.Tenant) []string {
	var out []string
	for _, t := range tenants {
		if n := f.Redis.Replicas; t.RPM > 0 && t.RPM < n {
			out = append(out, fmt.Sprintf("tenant %s: while Redis is away each of %d replicas lets in at least one request at once, so its rpm of %d may be exceeded", t.ID, n, t.RPM))
		}
	}
	if ep, err := f.Redis.CacheEndpoint(); err == nil && ep.Shared() && f.Cache.SealKeysFile == "" {
		out = append(out, "cache.seal_keys_file: there is none, so who can write to the Redis of answers and knows a request can forge its answer; "+
			"give all replicas one with a line \"k1 SECRET\" (openssl rand -hex 32)")
	}
	return append(out, economyWarnings(f)...)
}
