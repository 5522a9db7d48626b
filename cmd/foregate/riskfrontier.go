package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
)

type riskFrontierCmd struct {
	Route  string `help:"Only this route." placeholder:"NAME"`
	Labels bool   `help:"Also the tables of the labels that are not in force (risk.label)."`
	Config string `short:"c" type:"path" help:"The replica's configuration file: where its admin listener is, and its tokens."`
	Admin  string `env:"FOREGATE_ADMIN" help:"The replica's admin listener; otherwise that of --config, or http://127.0.0.1:9090." placeholder:"URL"`
	JSON   bool   `help:"As JSON, as GET /admin/risk/frontier tells it."`
	tokenFlags
}

// Run asks a replica: it knows the requests of a day and the prices of their tokens.
func (c *riskFrontierCmd) Run(e *env) error {
	admin := c.Admin
	if c.Config != "" {
		f, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		if err := knownRoute(f, c.Route); err != nil {
			return err
		}
		admin, c.file = adminOf(admin, f), f
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), "/admin/risk/frontier")
	if err != nil {
		return err
	}
	if c.Route != "" {
		at.RawQuery = url.Values{"route": {c.Route}}.Encode()
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	if err != nil {
		return err
	}
	var answer gateway.RiskFrontiers
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	if c.JSON {
		return writeLines(e.stdout, answer)
	}
	display.Frontiers(e.stdout, answer, c.Labels)
	return nil
}
