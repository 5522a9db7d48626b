package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/tiers/fleet"
)

type cachePurgeCmd struct {
	redisFlags
	CacheRedis string        `help:"The URL of the Redis that has the answers; without it redis.cache_url of --config, else that of --redis." placeholder:"URL"`
	Tenant     *string       `help:"Only this tenant's answers, on all routes; not with --route." placeholder:"NAME"`
	Route      *string       `help:"Only this route's answers, of all tenants; not with --tenant." placeholder:"MODEL"`
	Sweep      time.Duration `default:"30s" help:"How long answers are deleted after that, 0s … 10m; they cannot be reached any more, and expire by themselves (${default})."`
	Force      bool          `help:"Also where no replica lives: for those that start later."`
	tlsFlags
}

const (
	maxSweep = 10 * time.Minute
	// A replica that lives may have missed its turn, or Redis have come back only now.
	replicaTimeout      = 2 * time.Second
	replicaPollInterval = 100 * time.Millisecond
)

// Run purges, and then sweeps. The exit status is 0 as soon as the answers are unreachable. Where no replica lives
// it is not, and nothing is done: somebody else's Redis may have been named.
func (c *cachePurgeCmd) Run(e *env) error {
	scope, err := c.scope()
	if err != nil {
		return err
	}
	if c.Sweep < 0 || c.Sweep > maxSweep {
		return fmt.Errorf("--sweep: want 0s … %s", maxSweep)
	}
	file, err := c.file()
	if err != nil {
		return err
	}
	if err := knownRoute(file, scope.Route); err != nil {
		return err
	}
	at, err := c.purgeStore(file)
	switch {
	case err != nil:
		return err
	case at.Kind == config.KindEmbedded:
		return c.throughAdmin(e, file, scope)
	}
	client, err := stores.OpenForOperator(at.Endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // only connections are lost
	ctx, cancel := context.WithTimeout(e.ctx, settingsTimeout)
	defer cancel()
	who, err := c.reach(ctx, client, at)
	if err != nil {
		return err
	}
	everything, err := cache.Purge(ctx, client, scope)
	if err != nil {
		return err
	}
	printPurged(e.stdout, scope, everything, who)
	return c.sweep(e, client, file, scope)
}

// purgeStore is a Redis in which purges are noted.
type purgeStore struct {
	config.Endpoint
	answersOnly bool // replicas do not tell there that they live: they share nothing but answers
}

// purgeStore is the one in which the replicas look. An embedded one is that of the file.
func (c *cachePurgeCmd) purgeStore(f *config.File) (purgeStore, error) {
	if c.Redis != "" || f == nil {
		ep, err := config.ParseRedis(cmp.Or(c.Redis, os.Getenv("FOREGATE_REDIS")))
		switch {
		case err != nil:
			return purgeStore{}, fmt.Errorf("--redis: %w", err)
		case ep.Kind == config.KindNone:
			return purgeStore{}, errors.New("no Redis is named: give --redis URL, --config FILE or $FOREGATE_REDIS")
		case ep.Kind == config.KindEmbedded:
			return purgeStore{}, errors.New("an embedded Redis is inside its replica: give its --config FILE instead")
		}
		return purgeStore{Endpoint: ep}, nil
	}
	ep, err := f.Redis.Endpoint()
	mute := err == nil && ep.Kind == config.KindNone
	if mute {
		ep, err = f.Redis.CacheEndpoint()
	}
	switch {
	case err != nil:
		return purgeStore{}, fmt.Errorf("%s: %w", c.Config, err)
	case ep.Kind == config.KindNone:
		return purgeStore{}, fmt.Errorf("%s: no Redis keeps answers, so there is nothing to purge", c.Config)
	}
	return purgeStore{ep, mute}, nil
}

// reach says which replicas will hear of a purge. It is an error when none lives, or that cannot be told, unless
// that is no matter.
func (c *cachePurgeCmd) reach(ctx context.Context, client redis.UniversalClient, at purgeStore) (string, error) {
	if c.Force || at.answersOnly {
		return fmt.Sprintf("replicas at %s, if any live there, do not serve these answers after a second", at.Endpoint), nil
	}
	const advice = "nothing was purged; --force purges all the same"
	n, err := liveReplicas(ctx, client)
	switch {
	case err != nil:
		return "", fmt.Errorf("whether a replica lives at %s cannot be told: %w; %s", at.Endpoint, err, advice)
	case n == 0:
		return "", fmt.Errorf("no replica lives at %s: is it the redis.url of the replicas? %s, for those that start later", at.Endpoint, advice)
	}
	return fmt.Sprintf("no replica serves these answers after a second; %d live at %s", n, at.Endpoint), nil
}

// liveReplicas is how many replicas live, the first time that there are any.
func liveReplicas(ctx context.Context, client redis.UniversalClient) (int, error) {
	tick := time.NewTicker(replicaPollInterval)
	defer tick.Stop()
	for end := time.Now().Add(replicaTimeout); ; {
		n, err := fleet.CountLive(ctx, client)
		if n > 0 || err != nil || time.Now().After(end) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// scope is what is to be purged. A name that is empty is refused: a variable that was not
// set must not purge everything.
func (c *cachePurgeCmd) scope() (cache.Scope, error) {
	var s cache.Scope
	for _, given := range []struct {
		flag string
		from *string
		to   *string
	}{{"--tenant", c.Tenant, &s.Tenant}, {"--route", c.Route, &s.Route}} {
		if given.from == nil {
			continue
		}
		if *given.from == "" {
			return s, fmt.Errorf("%s is empty; leave it out to purge everything", given.flag)
		}
		*given.to = *given.from
	}
	if s.Tenant != "" && s.Route != "" {
		return s, errors.New("--tenant and --route exclude each other: a tenant's answers on one route alone cannot be purged; purge the tenant or the route, or both by two commands")
	}
	return s, s.Check()
}

// file is the configuration, nil when none is named.
func (f redisFlags) file() (*config.File, error) {
	if f.Config == "" {
		return nil, nil
	}
	return config.Load(f.Config)
}

// knownRoute refuses a route that the file does not have: a purge of it would do nothing.
func knownRoute(f *config.File, route string) error {
	if f == nil || route == "" {
		return nil
	}
	var known []string
	for _, r := range f.Routes {
		if r.Model == route {
			return nil
		}
		known = append(known, r.Model)
	}
	return fmt.Errorf("--route: there is no route %s; known are: %s", display.Clip(route, 60), display.Clip(strings.Join(known, ", "), 200))
}

// printPurged says what was purged, and who has it in force.
func printPurged(w io.Writer, s cache.Scope, everything bool, who string) {
	what := s.String()
	if everything {
		what = "all (there were too many purges to tell them apart)"
	}
	_, _ = fmt.Fprintf(w, "purged %s: %s\n", what, who) // whoever reads may be gone
}

// throughAdmin has a replica purge the Redis that is inside it, which nobody else reaches.
func (c *cachePurgeCmd) throughAdmin(e *env, f *config.File, s cache.Scope) error {
	at, err := adminURL(adminOf("", f), "/admin/cache/purge")
	if err != nil {
		return err
	}
	q := url.Values{}
	if s.Tenant != "" {
		q.Set("tenant", s.Tenant)
	}
	if s.Route != "" {
		q.Set("route", s.Route)
	}
	at.RawQuery = q.Encode()
	body, err := askAdmin(e, http.MethodPost, at, tokenFlags{tlsFlags: c.tlsFlags, file: f})
	if err != nil {
		return err
	}
	var p gateway.PurgeResult
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	printPurged(e.stdout, s, p.Everything, "no replica serves these answers after a second")
	return nil
}

// sweep deletes what was purged, as far as that can be found and may be done. That it could
// not is no error, because nobody can reach it.
func (c *cachePurgeCmd) sweep(e *env, control redis.UniversalClient, f *config.File, s cache.Scope) error {
	if c.Sweep == 0 || s.Route != "" {
		_, err := fmt.Fprintln(e.stdout, "nothing was deleted; the answers expire by themselves, within cache.ttl")
		return err
	}
	client, closeClient, err := c.answers(control, f)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "note: the answers were not deleted: %v\n", err)
		return nil
	}
	defer closeClient()
	ctx, cancel := context.WithTimeout(e.ctx, c.Sweep)
	defer cancel()
	n, err := cache.Sweep(ctx, client, s)
	switch {
	case err == nil:
		_, err = fmt.Fprintf(e.stdout, "%d answers were deleted\n", n)
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		_, err = fmt.Fprintf(e.stdout, "%d answers were deleted in %s; the rest expire by themselves, within cache.ttl\n", n, c.Sweep)
		return err
	}
	_, _ = fmt.Fprintf(e.stderr, "note: %d answers were deleted, the rest expire by themselves, within cache.ttl: %v\n", n, err)
	return nil
}

// answers opens the Redis that has the answers; it is that of purges where no other is named.
func (c *cachePurgeCmd) answers(control redis.UniversalClient, f *config.File) (redis.UniversalClient, func(), error) {
	var ep config.Endpoint
	var err error
	switch {
	case c.CacheRedis != "":
		if ep, err = config.ParseRedis(c.CacheRedis); err != nil {
			return nil, nil, fmt.Errorf("--cache-redis: %w", err)
		}
	case f != nil && f.Redis.CacheURL != "":
		if ep, err = f.Redis.CacheEndpoint(); err != nil {
			return nil, nil, err
		}
	default:
		return control, func() {}, nil
	}
	if ep.Kind == config.KindNone || ep.Kind == config.KindEmbedded {
		return nil, nil, fmt.Errorf("redis.cache_url is %s, which nobody else reaches", ep.Kind)
	}
	client, err := stores.OpenForOperator(ep)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil // only connections are lost
}
