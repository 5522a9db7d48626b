package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/auditlog"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/calibrate"
)

type riskMapsCmd struct {
	redisFlags
	Route string `help:"Only this route; without it all routes that are configured or audited." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, with all that is known of each."`
}

// mapLine is one calibrated score as JSON.
type mapLine struct {
	Route   string          `json:"route"`
	Version int             `json:"version"`
	InUse   bool            `json:"in_use"`
	Fit     json.RawMessage `json:"fit"`
}

// Run lists the versions of calibrated scores, and which is in use.
func (c *riskMapsCmd) Run(e *env) error {
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	routes, err := c.routes(b)
	if err != nil {
		return err
	}
	lines := []mapLine{}
	for _, route := range routes {
		saved, err := b.book.Maps(b.ctx, route)
		if err != nil {
			return err
		}
		for _, m := range saved {
			lines = append(lines, mapLine{route, m.Version, b.snapshot.Route(route).Tiers.Risk.ScoreVersion == m.Version, bytes.TrimSpace(m.Raw)})
		}
	}
	if c.JSON {
		return writeLines(e.stdout, lines)
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(e.stdout, "there are none; foregate risk fit makes one")
		return err
	}
	t := display.Table{}
	t.Add("ROUTE", "VERSION", "AUDITS", "BAD", "AUROC BEFORE", "AFTER", "")
	for _, l := range lines {
		use := ""
		if l.InUse {
			use = "in use"
		}
		f, err := calibrate.Parse(l.Fit)
		if err != nil {
			t.Add(l.Route, fmt.Sprint(l.Version), "?", "?", "?", "?", strings.TrimSpace(use+" not readable: "+err.Error()))
			continue
		}
		t.Add(l.Route, fmt.Sprint(l.Version), fmt.Sprint(f.N), display.Percent(float64(f.Bad)/float64(f.N)), auditlog.AreaText(f.Before), auditlog.AreaText(f.After), use)
	}
	t.Write(e.stdout)
	return nil
}

// routes are those whose scores are asked for.
func (c *riskMapsCmd) routes(b *evidenceClient) ([]string, error) {
	all, err := b.book.All(b.ctx)
	if err != nil {
		return nil, err
	}
	routes := slices.Concat(b.routes, riskview.Routes(all))
	slices.Sort(routes)
	routes = slices.Compact(routes)
	if c.Route == "" {
		return routes, nil
	}
	if b.routes != nil && !slices.Contains(routes, c.Route) {
		return nil, b.unknown(c.Route, routes)
	}
	return []string{c.Route}, nil
}
