package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

type cacheCmd struct {
	Stats cacheStatsCmd `cmd:"" help:"Tell how a replica's cache of answers does."`
	Purge cachePurgeCmd `cmd:"" help:"Make the answers of a tenant, of a route, or all of them unreachable on every replica."`
}

type cacheStatsCmd struct {
	JSON bool `help:"As JSON, as the replica tells it."`
	replicaFlags
}

// Run asks a replica, and prints what it says.
func (c *cacheStatsCmd) Run(e *env) error {
	var v gateway.CacheView
	err := c.load()
	if err != nil {
		return err
	}
	body, err := c.ask(e, http.MethodGet, "/admin/cache", nil, &v)
	if err != nil {
		return err
	}
	if !c.JSON {
		display.Cache(e.stdout, v)
		return nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, out.String())
	return err
}
