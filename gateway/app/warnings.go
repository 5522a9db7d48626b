package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/stores"
)

// CheckResult is what [Check] finds in a valid configuration.
type CheckResult struct {
	Tenants  int      // number of listed tenants, here or in tenants_file
	Warnings []string // about gaps, or settings that have no effect
}

// Check reads all files that a configuration names, as a replica does, and starts nothing. It returns the
// error of the first invalid file.
func Check(f *config.File) (CheckResult, error) {
	watcher, expiry := files.New(files.Options{Logger: zerolog.Nop()}), files.NewExpiry(nil)
	who, err := resolver(f, watcher, f.Unpriced)
	if err != nil {
		return CheckResult{}, err
	}
	all, err := stores.PasswordFiles(f.Redis)
	if err != nil {
		return CheckResult{}, err
	}
	if f.AdminTokensFile != "" {
		all = append(all, adminTokensFile(f, new(gateway.Operators).Apply))
	}
	_, err = sealer(f.Cache, watcher, zerolog.Nop())
	for _, file := range all {
		err = cmp.Or(err, watcher.Add(file))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		if err == nil {
			_, _, err = poolCredentials(name, f.Pools[name], watcher, expiry)
		}
	}
	if err == nil {
		_, err = listenerTLS("tls", f.TLS, watcher, expiry)
	}
	if err == nil {
		_, err = listenerTLS("admin_tls", f.AdminTLS, watcher, expiry)
	}
	if err != nil {
		return CheckResult{}, err
	}
	return CheckResult{Tenants: len(who.Tenants()), Warnings: slices.Concat(warnings(f, who.Tenants()), expiry.Warnings(), readableSecrets(watcher))}, nil
}

// warnings lists gaps in a valid file, and settings that have no effect.
func warnings(f *config.File, tenants []identity.Tenant) []string {
	var out []string
	for _, t := range tenants {
		if n := f.Redis.Replicas; t.RPM > 0 && t.RPM < n {
			out = append(out, fmt.Sprintf("tenant %s: while Redis is away each of %d replicas lets in at least one request at once, so its rpm of %d may be exceeded", t.ID, n, t.RPM))
		}
	}
	out = append(out, modelWarnings(f, tenants)...)
	out = append(out, budgetWarnings(f, tenants)...)
	if f.Redis.CacheEndpoint().Shared() && f.Cache.SealKeysFile == "" {
		out = append(out, "cache.seal_keys_file: there is none, so who can write to the Redis of answers and knows a request can forge its answer; "+
			"give all replicas one with a line \"k1 SECRET\" (openssl rand -hex 32)")
	}
	return append(append(out, economyWarnings(f)...), targetWarnings(f)...)
}

// modelWarnings names the models of tenants that no route has. They are no mistake: the route may be added later.
func modelWarnings(f *config.File, tenants []identity.Tenant) []string {
	var out []string
	check := func(who string, a identity.Access) {
		for _, pattern := range a.Models {
			if !slices.ContainsFunc(f.Routes, func(rt config.Route) bool { return identity.MatchModel(pattern, rt.Model) }) {
				out = append(out, fmt.Sprintf("%s: no route has the model %s of its models", who, pattern))
			}
		}
	}
	for _, t := range tenants {
		check("tenant "+t.ID, t.Access)
	}
	check("identity.default_tenant", f.Identity.Default.Access)
	return out
}

// budgetWarnings names tenants whose budgets cannot be enforced: in dollars, on routes whose pools cost nothing, and all
// budgets without Redis, if they must last longer than the process.
func budgetWarnings(f *config.File, tenants []identity.Tenant) []string {
	var dollars, all []string
	note := func(who string, a identity.Access) {
		if len(a.Budgets) == 0 {
			return
		}
		all = append(all, who)
		if a.HasDollarBudget() {
			dollars = append(dollars, who)
		}
	}
	for _, t := range tenants {
		note(t.ID, t.Access)
	}
	note("identity.default_tenant", f.Identity.Default.Access)
	var out []string
	if free := f.Unpriced(); len(dollars) > 0 && len(free) > 0 {
		out = append(out, fmt.Sprintf("the budgets in USD of %s are not enforced for requests to %s, which %s no usd_per_hour: they are charged nothing; set usd_per_hour",
			display.List(dollars), display.List(free), display.Plural(len(free), "has", "have")))
	}
	if len(all) > 0 && f.Redis.URL.Kind == config.KindNone {
		out = append(out, fmt.Sprintf("redis.url is none: the budgets of %s begin anew whenever this process starts, and every replica counts its own", display.List(all)))
	}
	return out
}

// readableSecrets names the secret files that too many users can read. (The log of serve names them, too.)
func readableSecrets(watcher *files.Watcher) []string {
	var out []string
	for _, s := range watcher.States() {
		if s.WorldReadable {
			out = append(out, s.Setting+": every user of this machine may read the file; take the permission away (chmod o-r)")
		}
	}
	return out
}

// targetWarnings names routes with target pools that serve the same model in the same revision as another one of the route:
// a cached answer of one is then an answer of the other, too.
func targetWarnings(f *config.File) []string {
	var out []string
	for _, rt := range f.Routes {
		seen, alike := map[string]bool{}, []string(nil)
		for _, v := range rt.Variants() {
			serves := served(f, v).Target
			if seen[serves] {
				alike = append(alike, "pools."+v.Target)
			}
			seen[serves] = true
		}
		if len(alike) > 0 {
			out = append(out, fmt.Sprintf("route %s: %s %s the model and revision of another target, so they share cached answers; if their weights differ, set revision",
				rt.Model, display.List(alike), display.Plural(len(alike), "has", "have")))
		}
	}
	return out
}
