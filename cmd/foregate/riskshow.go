package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/plan"
)

type riskShowCmd struct {
	redisFlags
	Admin string `env:"FOREGATE_ADMIN" help:"Ask this replica's admin listener, which is what is done without --redis and --config, at http://127.0.0.1:9090." placeholder:"URL"`
	Route string `help:"Only this route." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, as GET /admin/risk tells it."`
	tokenFlags
}

// riskAnswer is what GET /admin/risk answers.
type riskAnswer struct {
	Risk []gateway.RiskView `json:"risk"`
}

// Run asks a replica, or the Redis that replicas share, and prints what is known.
func (c *riskShowCmd) Run(e *env) error {
	views, err := c.views(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeLines(e.stdout, riskAnswer{views})
	}
	display.Risk(e.stdout, views)
	return nil
}

// views come from Redis where one is named that others than a replica reach.
func (c *riskShowCmd) views(e *env) ([]gateway.RiskView, error) {
	admin := c.Admin
	switch {
	case c.Redis != "":
		return c.read(e)
	case c.Config != "":
		f, err := config.Load(c.Config)
		if err != nil {
			return nil, err
		}
		if err := knownRoute(f, c.Route); err != nil {
			return nil, err
		}
		at, err := f.Redis.Endpoint()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Config, err)
		}
		if at.Kind != config.KindNone && at.Kind != config.KindEmbedded {
			return c.read(e)
		}
		admin, c.tokenFlags.file = cmp.Or(admin, f.Admin), f
	}
	return c.ask(e, cmp.Or(admin, "127.0.0.1:9090"))
}

// ask asks a replica.
func (c *riskShowCmd) ask(e *env, admin string) ([]gateway.RiskView, error) {
	at, err := adminURL(admin, "/admin/risk")
	if err != nil {
		return nil, err
	}
	if c.Route != "" {
		at.RawQuery = url.Values{"route": {c.Route}}.Encode()
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	if err != nil {
		return nil, err
	}
	var answer riskAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return answer.Risk, nil
}

// read reads what all replicas share.
func (c *riskShowCmd) read(e *env) ([]gateway.RiskView, error) {
	b, err := c.openEvidence(e)
	if err != nil {
		return nil, err
	}
	defer b.close()
	known, err := b.readStates("")
	if err != nil {
		return nil, err
	}
	now, err := b.redisNow()
	if err != nil {
		return nil, err
	}
	p, err := riskview.RatesOf(b.ctx, b.book, known, now)
	if err != nil {
		return nil, err
	}
	config := func(route string) *plan.Config { return &b.snapshot.Route(route).Tiers }
	views := riskview.Viewer{Config: config, Rates: p, Now: now}.Views(known)
	if c.Route == "" {
		return views, nil
	}
	views = slices.DeleteFunc(views, func(v gateway.RiskView) bool { return v.Route != c.Route })
	if len(views) == 0 {
		return views, b.unknown(c.Route, riskview.Routes(known))
	}
	return views, nil
}
