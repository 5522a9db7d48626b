package main

import (
	"net/http"
	"net/url"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

type riskFrontierCmd struct {
	Route string `help:"Only this route." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, as GET /admin/risk/frontier tells it."`
	replicaFlags
}

// Run asks a replica: it knows the requests of a day and the prices of their tokens.
func (c *riskFrontierCmd) Run(e *env) error {
	if err := c.load(); err != nil {
		return err
	}
	query := url.Values{}
	if c.Route != "" {
		if c.file != nil {
			if err := knownRoute(c.file, c.Route); err != nil {
				return err
			}
		}
		query.Set("route", c.Route)
	}
	var answer gateway.RiskFrontiers
	if _, err := c.ask(e, http.MethodGet, "/admin/risk/frontier", query, &answer); err != nil {
		return err
	}
	if c.JSON {
		return writeLines(e.stdout, answer)
	}
	display.Frontiers(e.stdout, answer)
	return nil
}
