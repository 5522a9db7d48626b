package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	tokenFile
}

// Run asks a replica, and prints what it says.
func (c *cacheStatsCmd) Run(e *env) error {
	admin := c.Admin
	if admin == "" && c.Config != "" {
		f, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		admin, c.file = f.Admin, f
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), "/admin/cache")
	if err != nil {
		return err
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFile)
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

// printCache writes what a replica knows of its cache, for people.
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
	for _, part := range []struct {
		name, what string
		by         map[string]uint64
	}{{"refused", "values", v.Refused}, {"dropped", "answers", v.Dropped}} {
		for _, reason := range slices.Sorted(maps.Keys(part.by)) {
			if n := part.by[reason]; n > 0 {
				head.add(part.name, fmt.Sprintf("%d %s: %s", n, part.what, reason))
			}
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
