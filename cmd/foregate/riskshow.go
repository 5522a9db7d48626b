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
	"github.com/foregate/foregate/tiers/refit"
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
	Risk   []gateway.RiskView  `json:"risk"`
	Refits []gateway.RefitView `json:"refits"`
}

// Run asks a replica, or the Redis that replicas share, and prints what is known.
func (c *riskShowCmd) Run(e *env) error {
	answer, err := c.answer(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeLines(e.stdout, answer)
	}
	display.Risk(e.stdout, answer.Risk)
	display.Refits(e.stdout, answer.Refits)
	return nil
}

// answer comes from Redis where one is named that others than a replica reach.
func (c *riskShowCmd) answer(e *env) (riskAnswer, error) {
	admin := c.Admin
	switch {
	case c.Redis != "":
		return c.read(e)
	case c.Config != "":
		f, err := config.Load(c.Config)
		if err != nil {
			return riskAnswer{}, err
		}
		if err := knownRoute(f, c.Route); err != nil {
			return riskAnswer{}, err
		}
		at, err := f.Redis.Endpoint()
		if err != nil {
			return riskAnswer{}, fmt.Errorf("%s: %w", c.Config, err)
		}
		if at.Kind != config.KindNone && at.Kind != config.KindEmbedded {
			return c.read(e)
		}
		admin, c.tokenFlags.file = adminOf(admin, f), f
	}
	return c.ask(e, cmp.Or(admin, "127.0.0.1:9090"))
}

// ask asks a replica.
func (c *riskShowCmd) ask(e *env, admin string) (riskAnswer, error) {
	at, err := adminURL(admin, "/admin/risk")
	if err != nil {
		return riskAnswer{}, err
	}
	if c.Route != "" {
		at.RawQuery = url.Values{"route": {c.Route}}.Encode()
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	if err != nil {
		return riskAnswer{}, err
	}
	var answer riskAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return riskAnswer{}, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return answer, nil
}

// read reads what all replicas share.
func (c *riskShowCmd) read(e *env) (riskAnswer, error) {
	b, err := c.openEvidence(e)
	if err != nil {
		return riskAnswer{}, err
	}
	defer b.close()
	known, err := b.readStates("")
	if err != nil {
		return riskAnswer{}, err
	}
	now, err := b.redisNow()
	if err != nil {
		return riskAnswer{}, err
	}
	p, err := riskview.RatesOf(b.ctx, b.book, known, now)
	if err != nil {
		return riskAnswer{}, err
	}
	config := func(route string) *plan.Config { return &b.snapshot.Route(route).Tiers }
	views := riskview.Viewer{Config: config, Rates: p, Now: now}.Views(known)
	refits, err := b.readRefits(riskview.Routes(known))
	if err != nil || c.Route == "" {
		return riskAnswer{views, refits}, err
	}
	views = slices.DeleteFunc(views, func(v gateway.RiskView) bool { return v.Route != c.Route })
	refits = slices.DeleteFunc(refits, func(v gateway.RefitView) bool { return v.Route != c.Route })
	if len(views) == 0 {
		return riskAnswer{views, refits}, b.unknown(c.Route, riskview.Routes(known))
	}
	return riskAnswer{views, refits}, nil
}

// readRefits reads the candidates of the routes that have audits. A record that no replica wrote is none.
func (b *evidenceClient) readRefits(routes []string) ([]gateway.RefitView, error) {
	records, err := b.book.Refits(b.ctx, routes)
	if err != nil {
		return nil, err
	}
	progress := make(map[string]refit.Progress, len(routes))
	for i, record := range records {
		if p, err := refit.Parse(record); err == nil {
			progress[routes[i]] = p
		}
	}
	return riskview.Refits(routes, progress), nil
}
