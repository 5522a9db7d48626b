package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
)

type cacheCmd struct {
	Stats cacheStatsCmd `cmd:"" help:"Tell how a replica's cache of answers does."`
	Purge cachePurgeCmd `cmd:"" help:"Make the answers of a tenant, of a route, or all of them unreachable on every replica."`
}

type cacheStatsCmd struct {
	Config string `short:"c" type:"path" help:"The replica's configuration file: where its admin listener is."`
	Admin  string `env:"FOREGATE_ADMIN" help:"The replica's admin listener; without it that of --config, else http://127.0.0.1:9090." placeholder:"URL"`
	JSON   bool   `help:"As JSON, as the replica tells it."`
	tokenFlags
}

// Run asks a replica, and prints what it says.
func (c *cacheStatsCmd) Run(e *env) error {
	admin := c.Admin
	if admin == "" && c.Config != "" {
		f, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		admin, c.file = adminOf("", f), f
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), "/admin/cache")
	if err != nil {
		return err
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	if err != nil {
		return err
	}
	var v gateway.CacheView
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	if !c.JSON {
		display.Cache(e.stdout, v)
		return nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	_, err = fmt.Fprintln(e.stdout, out.String())
	return err
}
