package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/words"
)

// settingsTimeout bounds a command of `foregate settings`, all its round trips together.
const settingsTimeout = 20 * time.Second

type settingsCmd struct {
	List     listCmd     `cmd:"" help:"List all settings: their values, defaults and ranges, and who changed them last."`
	Set      setCmd      `cmd:"" help:"Set settings, all or none; every replica obeys within a second."`
	Unset    unsetCmd    `cmd:"" help:"Give settings their defaults again."`
	Apply    applyCmd    `cmd:"" help:"Make the settings what a file says, for GitOps: what it does not name gets its default again."`
	Log      logCmd      `cmd:"" help:"Print the history, the newest change first."`
	Rollback rollbackCmd `cmd:"" help:"Make the settings what they were after a version."`
}

// redisFlags says which Redis and which routes.
type redisFlags struct {
	Redis  string `help:"The URL of the Redis that the replicas share; without it that of --config, else $$FOREGATE_REDIS." placeholder:"URL"`
	Config string `short:"c" type:"path" help:"The replicas' configuration file: where Redis is, and which routes there are."`
}

// open connects to the settings.
func (f redisFlags) open(ctx context.Context) (*settingsEditor, error) {
	d := &settingsEditor{}
	var r config.Redis
	err := r.URL.UnmarshalText([]byte(cmp.Or(f.Redis, os.Getenv("FOREGATE_REDIS"))))
	if f.Config != "" {
		file, ferr := config.Load(f.Config)
		if ferr != nil {
			return nil, ferr
		}
		for _, route := range file.Routes {
			d.routes = append(d.routes, route.Model)
		}
		if f.Redis == "" {
			r, err = file.Redis, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	switch r.Endpoint().Kind {
	case config.KindNone:
		return nil, errors.New("no Redis is named: give --redis URL, --config FILE or $FOREGATE_REDIS")
	case config.KindEmbedded:
		return nil, errors.New("an embedded Redis is inside its replica; nobody else can change settings there")
	}
	if d.client, err = stores.OpenForOperator(r); err != nil {
		return nil, err
	}
	d.endpoint, _ = r.SettingsEndpoint()
	d.Store = settings.NewStore(d.client, d.routes)
	d.ctx, d.cancel = context.WithTimeout(ctx, settingsTimeout)
	return d, nil
}

// settingsEditor is where an operator works on the settings.
type settingsEditor struct {
	*settings.Store
	routes   []string // nil: not known
	client   redis.UniversalClient
	endpoint config.Endpoint

	ctx    context.Context // of the one command
	cancel context.CancelFunc
}

func (s *settingsEditor) close() {
	s.cancel()
	_ = s.client.Close() // only connections are lost
}

// changeFlags is what commands that change something are told.
type changeFlags struct {
	As      string `help:"Who changes the settings; otherwise the user and the machine." placeholder:"NAME"`
	Because string `help:"Why, for the log." placeholder:"TEXT"`
	DryRun  bool   `help:"Only tell what would change."`
}

func (c changeFlags) order(force bool) settings.Edit {
	return settings.Edit{Who: cmp.Or(c.As, whoami()), Why: c.Because, DryRun: c.DryRun, Force: force}
}

// whoami is who runs this process, as far as the environment tells.
func whoami() string {
	name := cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"), "somebody")
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// assignFlags is for commands that give settings values. A replica is asked which routes there are, where no file says it.
type assignFlags struct {
	redisFlags
	adminFlags
	changeFlags
	Force bool `help:"Also settings and routes that this version does not know."`
}

type setCmd struct {
	assignFlags
	Settings []string `arg:"" help:"NAME=VALUE or NAME@ROUTE=VALUE, any number of them; or one NAME and its VALUE."`
}

// Run sets settings.
func (c *setCmd) Run(e *env) error {
	set, err := assignments(c.Settings)
	if err != nil {
		return err
	}
	return c.change(e, c.changeFlags, func(d *settingsEditor) (settings.Result, error) {
		c.askRoutes(e, d, set)
		return d.Set(d.ctx, c.order(c.Force), set, nil)
	})
}

// assignments reads NAME=VALUE …, or NAME VALUE.
func assignments(args []string) (map[string]string, error) {
	if len(args) == 2 && !strings.Contains(args[0], "=") {
		return map[string]string{args[0]: args[1]}, nil
	}
	set := map[string]string{}
	for _, word := range args {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: want NAME=VALUE", words.Clip(word, 60))
		}
		if _, twice := set[name]; twice {
			return nil, fmt.Errorf("%s is given twice", words.Clip(name, 60))
		}
		set[name] = value
	}
	return set, nil
}

type unsetCmd struct {
	redisFlags
	changeFlags
	Names []string `arg:"" help:"NAME or NAME@ROUTE, any number of them."`
}

// Run unsets settings.
func (c *unsetCmd) Run(e *env) error {
	return c.change(e, c.changeFlags, func(d *settingsEditor) (settings.Result, error) {
		return d.Set(d.ctx, c.order(false), nil, c.Names)
	})
}

type rollbackCmd struct {
	redisFlags
	changeFlags
	Version int64 `arg:"" help:"The version, as foregate settings log tells it; 0 is nothing set."`
}

// Run restores the settings of a version.
func (c *rollbackCmd) Run(e *env) error {
	if c.Version < 0 {
		return errors.New("rollback: give a version; foregate settings log tells them")
	}
	return c.change(e, c.changeFlags, func(d *settingsEditor) (settings.Result, error) {
		o := c.order(false)
		o.Why = cmp.Or(o.Why, fmt.Sprintf("back to version %d", c.Version))
		return d.Rollback(d.ctx, o, c.Version)
	})
}

// change makes a change and tells what came of it.
func (f redisFlags) change(e *env, o changeFlags, do func(d *settingsEditor) (settings.Result, error)) error {
	d, err := f.open(e.ctx)
	if err != nil {
		return err
	}
	defer d.close()
	r, err := do(d)
	if refused, ok := errors.AsType[*settings.RefusedError](err); ok {
		for _, p := range refused.Problems {
			_, _ = fmt.Fprintln(e.stderr, p)
		}
		_, _ = fmt.Fprintln(e.stderr, "nothing was changed")
		return errSilent
	}
	if err != nil {
		return d.explain(err)
	}
	for _, n := range r.Notes {
		_, _ = fmt.Fprintln(e.stderr, "note: "+n)
	}
	if len(r.Found) > 0 {
		_, _ = fmt.Fprintln(e.stdout, "changed earlier without an entry in the history:")
		printChanges(e.stdout, r.Found)
	}
	switch {
	case len(r.Changes) == 0:
		_, err = fmt.Fprintln(e.stdout, "nothing to change")
	case o.DryRun:
		_, _ = fmt.Fprintln(e.stdout, "would change:")
		printChanges(e.stdout, r.Changes)
	default:
		_, _ = fmt.Fprintf(e.stdout, "version %d:\n", r.Version)
		printChanges(e.stdout, r.Changes)
	}
	return err
}

// askRoutes asks a replica which routes there are, if one of the settings is of a route and no file has told. If it does not
// say, a setting of any route is taken, with a note: what has to be set in an emergency must not need a replica.
func (a *assignFlags) askRoutes(e *env, d *settingsEditor, set map[string]string) {
	ofRoute := func(name string) bool { return strings.Contains(name, "@") }
	if d.routes != nil || !slices.ContainsFunc(slices.Collect(maps.Keys(set)), ofRoute) {
		return
	}
	r, status := replicaFlags{adminFlags: a.adminFlags}, gateway.Status{}
	if _, err := r.ask(e, http.MethodGet, "/admin/status", nil, &status); err != nil {
		_, _ = fmt.Fprintf(e.stderr, "note: it is not known which routes there are (give --config or --admin): %v\n", err)
		return
	}
	d.routes = []string{}
	for _, route := range status.Routes {
		d.routes = append(d.routes, route.Route)
	}
	d.Store = settings.NewStore(d.client, d.routes)
}

// explain says which Redis an error is of, and what to do about its refusal of this user.
func (s *settingsEditor) explain(err error) error {
	if !calls.Answered(err) {
		return fmt.Errorf("no answer from Redis (%s): %w", s.endpoint, err)
	}
	if settings.IsForbidden(err) {
		return fmt.Errorf("%w\nthe user of this URL may not do that: give --redis the operator's (redis://operator:PASSWORD@HOST:6379/0), or the configuration redis.settings_url", err)
	}
	return err
}
