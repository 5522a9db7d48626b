package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	a.restart.Store(&[]string{})
	a.registerReloads()
	if a.Path == "" {
		return nil
	}
	return a.files.Add(files.File{
		Setting: configSetting, Paths: []string{a.Path}, Max: config.MaxFile,
		Apply: func(contents [][]byte) error { return a.applyConfig(contents[0]) },
	})
}

// registerReloads registers the metric of what waits for a restart.
func (a *App) registerReloads() {
	if a.Registerer == nil {
		return
	}
	a.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_config_restart_required",
		Help: "Number of top-level fields of the configuration file whose new values are in force only after a restart.",
	}, func() float64 { return float64(len(*a.restart.Load())) }))
}

// applyConfig puts a configuration file into force, as far as a running replica can, or changes nothing.
func (a *App) applyConfig(data []byte) error {
	next, err := config.Parse(configSetting, data)
	if err != nil {
		return err
	}
	if _, err := Check(next); err != nil { // files that it names, which a restart would refuse
		return err
	}
	r := config.Reload(a.file(), next)
	if len(r.Changes) > 0 {
		if err := a.replaceRouting(r.File); err != nil {
			return err
		}
		a.changes.Store(&r.Changes)
		a.Logger.Info().Strs("changes", r.Changes[:min(len(r.Changes), maxLoggedChanges)]).Int("count", len(r.Changes)).Msg("the configuration file was read again; its changes are in force")
	}
	if before := *a.restart.Load(); len(r.Restart) > 0 && !slices.Equal(before, r.Restart) {
		a.Logger.Warn().Strs("fields", r.Restart).Msg("these fields of the configuration file differ, and keep their old values until this replica starts again")
	}
	a.restart.Store(&r.Restart)
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
	return a.putInForce(next)
}

// abandon ends the pools of next that was does not have. No request has seen them.
func (a *App) abandon(next, was *routing) {
	for name, p := range next.pools {
		if was.pool(name) != p.Pool {
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
		old, p := was.pool(name), next.pools[name]
		if old == p.Pool {
			continue
		}
		if old != nil {
			p.TakeDrains(old)
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
func (a *App) putInForce(next *routing) error {
	if err := a.Fleet.SetPools(next.fleetPools()); err != nil {
		return err
	}
	for _, name := range next.poolNames() {
		if err := next.pools[name].update(); err != nil {
			return err
		}
	}
	was := a.routing.Swap(next)
	for name, p := range was.pools {
		if next.pool(name) != p.Pool {
			p.Retire()
			p.run.retired = time.Now()
			a.retired = append(a.retired, p)
		}
	}
	a.Settings.SetRoutes(a.routes())
	if err := a.cascade.SetRoutes(a.tierRoutes(next)); err != nil {
		return err
	}
	a.warn(warnings(next.file, a.identity.Tenants()))
	return a.prober.SetPools(a.probedPools(next))
}

// warn logs and keeps warnings about the configuration. A warning that is known already is not logged again.
func (a *App) warn(all []string) {
	var known []string
	if last := a.warnings.Load(); last != nil {
		known = *last
	}
	for _, w := range all {
		if !slices.Contains(known, w) {
			a.Logger.Warn().Msg(w)
		}
	}
	a.warnings.Store(&all)
}

// allWarnings returns the warnings about the configuration in force, about what waits for a restart, about backends that
// cannot be found, and about certificates that expire soon.
func (a *App) allWarnings() []string {
	out := slices.Clone(*a.warnings.Load())
	if waits := *a.restart.Load(); len(waits) > 0 {
		out = append(out, fmt.Sprintf("the configuration file has other values for %s; restart this replica to put them into force", strings.Join(waits, ", ")))
	}
	pools := a.routing.Load().pools
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if problem := pools[name].DiscoveryProblem(); problem != "" {
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
	if dryRun {
		return a.tryReload()
	}
	before := a.changes.Load()
	counted := map[string]int{}
	for _, s := range a.files.States() {
		counted[s.Setting] = s.Changes
	}
	states, err := a.files.CheckNow(ctx)
	if err != nil {
		return gateway.ReloadResult{}, err
	}
	result := gateway.ReloadResult{Changes: []string{}, Restart: *a.restart.Load(), Problems: []string{}}
	if after := a.changes.Load(); after != before {
		result.Changes = append(result.Changes, *after...)
	}
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

// reloadOnSignals reloads whenever a signal arrives, until ctx ends.
func (a *App) reloadOnSignals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-a.Hangups:
			a.reloadOn(ctx, s)
		}
	}
}

// reloadOn reloads because of a signal, and logs the result.
func (a *App) reloadOn(ctx context.Context, s os.Signal) {
	ctx, cancel := context.WithTimeout(ctx, gateway.ReloadTimeout)
	defer cancel()
	result, err := a.Reload(ctx, false)
	log := a.Logger.Info()
	if err != nil || len(result.Problems) > 0 {
		log = a.Logger.Warn().Err(err).Strs("problems", result.Problems[:min(len(result.Problems), maxLoggedChanges)])
	}
	log.Stringer("signal", s).Strs("changes", result.Changes[:min(len(result.Changes), maxLoggedChanges)]).Int("count", len(result.Changes)).Strs("restart", result.Restart).Msg("files were read again because of a signal")
}

// tryReload reports what the configuration file would change, and changes nothing.
func (a *App) tryReload() (gateway.ReloadResult, error) {
	result := gateway.ReloadResult{DryRun: true, Changes: []string{}, Restart: []string{}, Problems: []string{}}
	data, _, err := files.Read(a.Path, config.MaxFile)
	if err != nil {
		result.Problems = problemLines(configSetting, err.Error())
		return result, nil
	}
	next, err := config.Parse(configSetting, data)
	if err == nil {
		_, err = Check(next)
	}
	if err != nil {
		result.Problems = problemLines(configSetting, err.Error())
		return result, nil
	}
	r := config.Reload(a.file(), next)
	result.Changes, result.Restart = append(result.Changes, r.Changes...), append(result.Restart, r.Restart...)
	return result, nil
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
