package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

// show asks a replica for a path of its admin listener, and prints the answer: as JSON, as the replica tells it, or as
// write does.
func show[T any](e *env, f *replicaFlags, path string, query url.Values, asJSON bool, write func(io.Writer, T)) error {
	var answer T
	body, err := f.ask(e, http.MethodGet, path, query, &answer)
	if err != nil {
		return err
	}
	if !asJSON {
		write(e.stdout, answer)
		return nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, out.String())
	return err
}

type statusCmd struct {
	JSON bool `help:"As JSON, as the replica tells it."`
	replicaFlags
}

// Run asks a replica how it stands, and prints that. The exit status is 1 when the replica cannot be reached.
func (c *statusCmd) Run(e *env) error {
	return show(e, &c.replicaFlags, "/admin/status", nil, c.JSON, display.Status)
}

type usageCmd struct {
	From string `help:"The first UTC day, such as 2026-11-01; without it the first of the month." placeholder:"DAY"`
	To   string `help:"The last UTC day, included; without it today." placeholder:"DAY"`
	By   string `help:"One or more of tenant, route and day, in the order of the columns (tenant)." placeholder:"LIST"`
	CSV  bool   `name:"csv" xor:"form" help:"As CSV with all columns, for a spreadsheet."`
	JSON bool   `xor:"form" help:"As JSON, as GET /admin/usage tells it."`
	replicaFlags
}

// Run asks a replica what tenants used over all replicas, and prints that.
func (c *usageCmd) Run(e *env) error {
	query := url.Values{}
	for name, value := range map[string]string{"from": c.From, "to": c.To, "by": c.By} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !c.CSV {
		return show(e, &c.replicaFlags, "/admin/usage", query, c.JSON, display.Usage)
	}
	query.Set("format", "csv")
	body, err := c.ask(e, http.MethodGet, "/admin/usage", query, nil)
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(body)
	return err
}

type riskShowCmd struct {
	Route    string `help:"Only this route." placeholder:"NAME"`
	Frontier bool   `help:"What each maximum of disagreement would give instead: drafts served, dollars saved, and the audits until then."`
	JSON     bool   `help:"As JSON, as GET /admin/risk or /admin/risk/frontier tells it."`
	replicaFlags
}

// Run asks a replica, which knows what all replicas share, the requests of a day and the prices of their tokens.
func (c *riskShowCmd) Run(e *env) error {
	query := ofRoute(c.Route)
	if c.Frontier {
		return show(e, &c.replicaFlags, "/admin/risk/frontier", query, c.JSON, display.Frontiers)
	}
	return show(e, &c.replicaFlags, "/admin/risk", query, c.JSON, func(w io.Writer, a gateway.RiskAnswer) {
		display.Risk(w, a.Risk)
		display.Refits(w, a.Refits)
	})
}

// ofRoute is the query for one route; "" is all.
func ofRoute(name string) url.Values {
	if name == "" {
		return url.Values{}
	}
	return url.Values{"route": {name}}
}

type riskApplicationsCmd struct {
	Route string `help:"Only this route." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, as GET /admin/risk/applications tells it."`
	replicaFlags
}

// Run asks a replica, which knows what all replicas share.
func (c *riskApplicationsCmd) Run(e *env) error {
	return show(e, &c.replicaFlags, "/admin/risk/applications", ofRoute(c.Route), c.JSON, func(w io.Writer, a gateway.ApplicationsAnswer) {
		display.Applications(w, a.Applications)
	})
}

type cacheCmd struct {
	Purge cachePurgeCmd `cmd:"" help:"Make the answers of a tenant, of a route, or all of them unreachable on every replica."`
}

type cachePurgeCmd struct {
	Tenant *string `xor:"scope" required:"" help:"Only this tenant's answers, on all routes." placeholder:"NAME"`
	Route  *string `xor:"scope" required:"" help:"Only this route's answers, of all tenants." placeholder:"MODEL"`
	All    bool    `xor:"scope" required:"" help:"All answers, of all tenants and routes; with --yes."`
	Yes    bool    `help:"Purge --all."`
	replicaFlags
}

// Run has a replica purge. Answers that are purged expire by themselves, within cache.ttl. A name that is empty is
// refused: a variable that was not set must not purge everything.
func (c *cachePurgeCmd) Run(e *env) error {
	query := url.Values{}
	for name, value := range map[string]*string{"tenant": c.Tenant, "route": c.Route} {
		switch {
		case value == nil:
		case *value == "":
			return fmt.Errorf("--%s is empty; --all --yes purges everything", name)
		default:
			query.Set(name, *value)
		}
	}
	if c.All && !c.Yes {
		return errors.New("every cached answer would be made anew at the engines' cost; give --all --yes to purge all of them")
	}
	var result gateway.PurgeResult
	if _, err := c.ask(e, http.MethodPost, "/admin/cache/purge", query, &result); err != nil {
		return err
	}
	what := result.Purged
	if result.Everything {
		what = "all (there were too many purges to tell them apart)"
	}
	told := "no replica serves these answers after a second"
	if result.Alone {
		told = result.Message
	}
	_, err := fmt.Fprintf(e.stdout, "purged %s: %s\n", what, told)
	return err
}

type reloadCmd struct {
	DryRun bool `help:"Only say what the configuration file would change."`
	replicaFlags
}

// Run has a replica read its files again, and prints what is new.
func (c *reloadCmd) Run(e *env) error {
	query := url.Values{}
	if c.DryRun {
		query.Set("dry_run", "1")
	}
	var r gateway.ReloadResult
	if _, err := c.ask(e, http.MethodPost, "/admin/reload", query, &r); err != nil {
		return err
	}
	_, err := fmt.Fprint(e.stdout, reloadText(r))
	return err
}

// reloadText says what a reload has changed, or would change.
func reloadText(r gateway.ReloadResult) string {
	text := ""
	for _, change := range r.Changes {
		text += change + "\n"
	}
	switch {
	case len(r.Changes) == 0:
		text += "nothing changes\n"
	case r.DryRun:
		text += "a reload would put this into force\n"
	default:
		text += "in force\n"
	}
	for _, field := range r.Restart {
		text += field + ": differs, and needs a restart\n"
	}
	return text
}
