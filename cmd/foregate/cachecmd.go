package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
)

type cacheCmd struct {
	Stats cacheStatsCmd `cmd:"" help:"Tell how a replica's cache of answers does."`
	Purge cachePurgeCmd `cmd:"" help:"Make the answers of a tenant, of a route, or all of them unreachable on every replica."`
}

type cacheStatsCmd struct {
	Config string `short:"c" type:"path" help:"The replica's configuration file: where its admin listener is."`
	Admin  string `env:"FOREGATE_ADMIN" help:"The replica's admin listener; without it that of --config, else http://127.0.0.1:9090." placeholder:"URL"`
	JSON   bool   `help:"As JSON, as the replica tells it."`
}

// Run asks a replica, and prints what it says.
func (c *cacheStatsCmd) Run(e *env) error {
	admin := c.Admin
	if admin == "" && c.Config != "" {
		f, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		admin = f.Admin
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), "/admin/cache")
	if err != nil {
		return err
	}
	body, err := askAdmin(e, http.MethodGet, at)
	if err != nil {
		return err
	}
	var v gateway.CacheView
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	if !c.JSON {
		printCache(e.stdout, v)
		return nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	_, err = fmt.Fprintln(e.stdout, out.String())
	return err
}

// results are in the order in which people want to read them.
var results = []cache.Result{
	cache.ResultHit, cache.ResultLocal, cache.ResultCoalesced, cache.ResultMiss, cache.ResultAway, cache.ResultLate, cache.ResultError, cache.ResultBypass,
}

// printCache writes what a replica knows of its cache, no wider than a terminal.
func printCache(w io.Writer, v gateway.CacheView) {
	head := table{most: 12}
	head.add("copies", fmt.Sprintf("%d here, %s", v.LocalEntries, sizeText(v.LocalBytes)))
	kept := "good for a second: Redis does not tell what has changed"
	if v.Tracked {
		kept = "good while Redis tells nothing else"
	}
	head.add("", kept)
	state := "asked"
	if v.Away {
		state = "not asked: it does not answer of late"
	}
	head.add("redis", state)
	head.add("to write", fmt.Sprint(v.Queued))
	for _, reason := range slices.Sorted(maps.Keys(v.Refused)) {
		if n := v.Refused[reason]; n > 0 {
			head.add("refused", fmt.Sprintf("%d values: %s", n, reason))
		}
	}
	head.write(w)
	t := table{}
	t.add("route", "hits, 5 min", "saved tokens", "saved")
	for _, r := range v.Routes {
		var words []string
		for _, result := range results {
			if n := r.Requests[string(result)]; n > 0 {
				words = append(words, fmt.Sprintf("%d %s", n, result))
			}
		}
		t.add(r.Route, fmt.Sprintf("%.0f%%", 100*r.HitRatio), fmt.Sprint(r.SavedTokens), dollars(r.SavedUSD))
		t.add("  " + strings.Join(words, ", "))
	}
	t.write(w)
}

// sizeText is a number of bytes in one unit.
func sizeText(n int64) string {
	const unit = 1 << 10
	switch {
	case n < unit:
		return fmt.Sprintf("%d bytes", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
}

// dollars are told to the cent, and what is less than one to its first digits.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.2g", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

type cachePurgeCmd struct {
	where
	CacheRedis string        `help:"The URL of the Redis that has the answers; without it redis.cache_url of --config, else that of --redis." placeholder:"URL"`
	Tenant     *string       `help:"Only this tenant's answers." placeholder:"NAME"`
	Route      *string       `help:"Only this route's answers." placeholder:"MODEL"`
	Sweep      time.Duration `default:"30s" help:"How long answers are deleted after that, 0s … 10m; they cannot be reached any more, and expire by themselves (${default})."`
}

const mostSweep = 10 * time.Minute

// Run purges, and then sweeps. The exit status is 0 as soon as the answers are unreachable.
func (c *cachePurgeCmd) Run(e *env) error {
	scope, err := c.scope()
	if err != nil {
		return err
	}
	if c.Sweep < 0 || c.Sweep > mostSweep {
		return fmt.Errorf("--sweep: want 0s … %s", mostSweep)
	}
	file, err := c.file()
	if err != nil {
		return err
	}
	if err := knownRoute(file, scope.Route); err != nil {
		return err
	}
	if file != nil && c.Redis == "" && file.Redis.URL == string(config.KindEmbedded) {
		return c.throughAdmin(e, file, scope)
	}
	d, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer d.close()
	everything, err := cache.Purge(d.ctx, d.client, scope)
	if err != nil {
		return err
	}
	tellPurged(e.stdout, scope, everything)
	return c.sweep(e, d, file, scope)
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
	return s, s.Check()
}

// file is the configuration, nil when none is named.
func (f where) file() (*config.File, error) {
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
	return fmt.Errorf("--route: there is no route %s; known are: %s", cut(route, 60), cut(strings.Join(known, ", "), 200))
}

func tellPurged(w io.Writer, s cache.Scope, everything bool) {
	what := s.String()
	if everything {
		what = "all (there were too many purges to tell them apart)"
	}
	_, _ = fmt.Fprintf(w, "purged %s: no replica serves these answers after a second\n", what) // whoever reads may be gone
}

// throughAdmin has a replica purge the Redis that is inside it, which nobody else reaches.
func (c *cachePurgeCmd) throughAdmin(e *env, f *config.File, s cache.Scope) error {
	at, err := adminURL(f.Admin, "/admin/cache/purge")
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
	body, err := askAdmin(e, http.MethodPost, at)
	if err != nil {
		return err
	}
	var p gateway.Purged
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	tellPurged(e.stdout, s, p.Everything)
	return nil
}

// sweep deletes what was purged, as far as that can be found and may be done. That it could
// not is no error, because nobody can reach it.
func (c *cachePurgeCmd) sweep(e *env, d *desk, f *config.File, s cache.Scope) error {
	if c.Sweep == 0 || s.Route != "" {
		_, err := fmt.Fprintln(e.stdout, "nothing was deleted; the answers expire by themselves, within cache.ttl")
		return err
	}
	client, closeClient, err := c.answers(d, f)
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

// answers opens the Redis that has the answers; it is the desk's where no other is named.
func (c *cachePurgeCmd) answers(d *desk, f *config.File) (redis.UniversalClient, func(), error) {
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
		return d.client, func() {}, nil
	}
	if ep.Kind == config.KindNone || ep.Kind == config.KindEmbedded {
		return nil, nil, fmt.Errorf("redis.cache_url is %s, which nobody else reaches", ep.Kind)
	}
	client, err := patient(ep)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil // only connections are lost
}
