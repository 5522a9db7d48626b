package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
)

const (
	// configSetting stands for the configuration file in metrics, the log and the status.
	configSetting = "config"
	// discoveryWait is the longest wait for the first backends of a pool that replaces a running one.
	discoveryWait = 3 * time.Second
	// maxLoggedChanges bounds a line of the log: a file may change thousands of tenants.
	maxLoggedChanges = 16
)

// watchConfig has the configuration file read again when it changes.
func (a *App) watchConfig() error {
	a.registerGauge("foregate_config_restart_required", "Number of top-level fields of the configuration file whose new values are in force only after a restart.",
		func() float64 { return float64(len(a.routing.Load().restart)) })
	if a.Path == "" {
		return nil
	}
	return a.files.Add(files.File{
		Setting: configSetting, Paths: []string{a.Path}, Max: config.MaxFile,
		Apply: func(contents [][]byte) error { return a.applyConfig(contents[0]) },
	})
}

// readConfig returns what becomes of the configuration in force with the content of a file. Files that it names must be
// such that a restart would take them.
func (a *App) readConfig(data []byte) (config.Reloaded, error) {
	next, err := config.Parse(configSetting, data)
	if err != nil {
		return config.Reloaded{}, err
	}
	if _, err := Check(next); err != nil {
		return config.Reloaded{}, err
	}
	return config.Reload(a.file(), next), nil
}

// applyConfig puts a configuration file into force, as far as a running replica can, or changes nothing.
func (a *App) applyConfig(data []byte) error {
	r, err := a.readConfig(data)
	if err != nil {
		return err
	}
	if len(r.Changes) > 0 {
		if err := a.replaceRouting(r.File); err != nil {
			return err
		}
		a.Logger.Info().Strs("changes", r.Changes[:min(len(r.Changes), maxLoggedChanges)]).Int("count", len(r.Changes)).Msg("the configuration file was read again; its changes are in force")
	}
	now := *a.routing.Load()
	if len(r.Restart) > 0 && !slices.Equal(now.restart, r.Restart) {
		a.Logger.Warn().Strs("fields", r.Restart).Msg("these fields of the configuration file differ, and keep their old values until this replica starts again")
	}
	now.restart = r.Restart
	a.routing.Store(&now)
	return nil
}

// replaceRouting puts pools, routes and tenants of a file into force, or changes nothing.
func (a *App) replaceRouting(f *config.File) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	was := a.routing.Load()
	next, err := a.newRouting(f, was)
	if err == nil {
		err = a.begin(next, was)
	}
	if err != nil {
		a.abandon(next, was)
		return err
	}
	a.setRights(f)
	return a.putInForce(next, was)
}

// abandon ends the pools of next that was does not have. No request has seen them.
func (a *App) abandon(next, was *routing) {
	for name, p := range next.pools {
		if was.pools[name] != p {
			a.endPool(was, p)
		}
	}
	a.queues.SetPools(a.queueNames(was))
}

// begin starts the pools of next that was does not have, and waits for the backends of those that replace one with
// backends, under the same name or on a route.
func (a *App) begin(next, was *routing) error {
	a.queues.SetPools(append(a.queueNames(was), next.poolNames()...))
	var awaited []string
	for _, name := range next.poolNames() {
		old, p := was.pools[name], next.pools[name]
		if old == p {
			continue
		}
		a.startPool(p)
		if a.poolsRun && next.replaces(was, name) {
			awaited = append(awaited, name)
		}
	}
	known := func(name string) bool { return hasBackends(next.pool(name)) }
	for deadline := time.Now().Add(discoveryWait); ; <-time.After(10 * time.Millisecond) {
		if awaited = slices.DeleteFunc(awaited, known); len(awaited) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("pools: %s found no backend within %v; the old ones stay in force", strings.Join(awaited, ", "), discoveryWait)
		}
	}
}

// putInForce swaps the pointer to the set of pools and routes, and tells those who keep state by pool or route. It fails
// only for names that a valid file cannot have. The old pools serve their last requests.
func (a *App) putInForce(next, was *routing) error {
	a.Fleet.SetPools(next.fleetPools())
	for name, p := range next.pools {
		if err := p.update(next.file.Pools[name]); err != nil {
			return err
		}
	}
	a.setWarnings(next, was)
	a.routing.Store(next)
	for name, p := range was.pools {
		if next.pools[name] != p {
			a.retired[p] = time.Now()
		}
	}
	a.Settings.SetRoutes(a.routes())
	a.cascade.SetRoutes(a.tierRoutes(next))
	a.prober.SetPools(a.probedPools(next))
	return nil
}

// setWarnings notes the warnings about the configuration of next, and logs those that are not known of was.
func (a *App) setWarnings(next, was *routing) {
	next.restart, next.warnings = was.restart, warnings(next.file, a.identity.Tenants())
	for _, w := range next.warnings {
		if !slices.Contains(was.warnings, w) {
			a.Logger.Warn().Msg(w)
		}
	}
}

// allWarnings returns the warnings about the configuration in force, about what waits for a restart, about backends that
// cannot be found, and about certificates that expire soon.
func (a *App) allWarnings() []string {
	r := a.routing.Load()
	out := slices.Clone(r.warnings)
	if len(r.restart) > 0 {
		out = append(out, fmt.Sprintf("the configuration file has other values for %s; restart this replica to put them into force", strings.Join(r.restart, ", ")))
	}
	for _, name := range r.poolNames() {
		if problem := r.pools[name].DiscoveryProblem(); problem != "" {
			out = append(out, fmt.Sprintf("pools.%s.discover fails: %s", name, problem))
		}
	}
	return append(out, a.listeners.expiry.Warnings()...)
}

// Reload reads all files again at once: the configuration file, and the files that it names. With dryRun it only reports
// what the configuration file would change.
func (a *App) Reload(ctx context.Context, dryRun bool) (gateway.ReloadResult, error) {
	if a.Path == "" {
		return gateway.ReloadResult{}, gateway.ErrNoConfigFile
	}
	result := gateway.ReloadResult{DryRun: dryRun, Changes: []string{}, Restart: []string{}, Problems: []string{}}
	if dryRun {
		data, _, err := files.Read(a.Path, config.MaxFile)
		var r config.Reloaded
		if err == nil {
			r, err = a.readConfig(data)
		}
		if err != nil {
			result.Problems = problemLines(configSetting, err.Error())
		}
		result.Changes, result.Restart = append(result.Changes, r.Changes...), append(result.Restart, r.Restart...)
		return result, nil
	}
	before, counted := a.file(), map[string]int{}
	for _, s := range a.files.States() {
		counted[s.Setting] = s.Changes
	}
	states, err := a.files.CheckNow(ctx)
	if err != nil {
		return gateway.ReloadResult{}, err
	}
	result.Changes = append(result.Changes, config.Reload(before, a.file()).Changes...)
	result.Restart = append(result.Restart, a.routing.Load().restart...)
	for _, s := range states {
		if s.Setting != configSetting && s.Changes != counted[s.Setting] {
			result.Changes = append(result.Changes, s.Setting+": changed")
		}
		if s.Error != "" {
			result.Problems = append(result.Problems, problemLines(s.Setting, s.Error)...)
		}
	}
	return result, nil
}

// reloadOnSignals reloads whenever a signal arrives, until ctx ends, and logs the results.
func (a *App) reloadOnSignals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-a.Hangups:
			within, cancel := context.WithTimeout(ctx, gateway.ReloadTimeout)
			result, err := a.Reload(within, false)
			cancel()
			log := a.Logger.Info()
			if err != nil || len(result.Problems) > 0 {
				log = a.Logger.Warn().Err(err).Strs("problems", result.Problems[:min(len(result.Problems), maxLoggedChanges)])
			}
			log.Stringer("signal", s).Strs("changes", result.Changes[:min(len(result.Changes), maxLoggedChanges)]).Int("count", len(result.Changes)).Strs("restart", result.Restart).Msg("files were read again because of a signal")
		}
	}
}

// problemLines splits an error into lines that begin with the setting.
func problemLines(setting, text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, setting+":") {
			line = setting + ": " + line
		}
		out = append(out, line)
	}
	return out
}
