package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/plan"
)

type riskShowCmd struct {
	where
	Admin string `env:"FOREGATE_ADMIN" help:"Ask this replica's admin listener, which is what is done without --redis and --config, at http://127.0.0.1:9090." placeholder:"URL"`
	Route string `help:"Only this route." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, as GET /admin/risk tells it."`
	tokenFile
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
	printRisk(e.stdout, views)
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
		admin, c.tokenFile.file = cmp.Or(admin, f.Admin), f
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
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFile)
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
	b, err := c.bench(e)
	if err != nil {
		return nil, err
	}
	defer b.close()
	known, err := b.known("")
	if err != nil {
		return nil, err
	}
	now, err := b.redisNow()
	if err != nil {
		return nil, err
	}
	p, err := pacesOf(b.ctx, b.book, known, now)
	if err != nil {
		return nil, err
	}
	config := func(route string) *plan.Config { return &b.snapshot.Route(route).Tiers }
	views := lens{config: config, paces: p, now: now}.views(known)
	if c.Route == "" {
		return views, nil
	}
	views = slices.DeleteFunc(views, func(v gateway.RiskView) bool { return v.Route != c.Route })
	if len(views) == 0 {
		return views, b.unknown(c.Route, routesOf(known))
	}
	return views, nil
}

// printRisk writes views for people: two lines for each.
func printRisk(w io.Writer, views []gateway.RiskView) {
	if len(views) == 0 {
		_, _ = fmt.Fprintln(w, "nothing is known: no draft was audited yet") // whoever reads may be gone
		return
	}
	for len(views) > 0 {
		first := &views[0]
		n := 1
		for n < len(views) && views[n].Route == first.Route {
			n++
		}
		writeLine(w, 2, fmt.Sprintf("%s: of the drafts served, the target would refuse at most %s, with probability %s",
			first.Route, percent(first.MaxWrongRate), percent(1-first.ErrorProbability)))
		t := table{indent: 2, most: 24}
		t.add("KIND OF REQUEST", "LOT", "STATE", "THRESHOLD", "ACCEPTS", "AUDITS", "FIRST CERTIFICATE")
		for i := range views[:n] {
			v := &views[i]
			t.add(v.TrafficClass, v.Cohort, string(v.State), thresholdText(v), acceptsText(v), auditsText(v), waitText(v))
			if v.State != gateway.RiskInfeasible {
				t.add("  " + riskText(v)) // the advice rests on more audits
			}
			if says := saysText(v); says != "" {
				t.add("  " + says)
			}
		}
		t.write(w)
		views = views[n:]
	}
}

// none stands where there is nothing to tell.
const none = "—"

func thresholdText(v *gateway.RiskView) string {
	if v.Threshold == nil {
		return none
	}
	return fmt.Sprintf("%d: %.2f nats", v.OperatingIndex, *v.Threshold)
}

func acceptsText(v *gateway.RiskView) string {
	if v.OperatingIndex == 0 {
		return none
	}
	return percent(v.Acceptance)
}

func auditsText(v *gateway.RiskView) string {
	if v.Pending > 0 {
		return fmt.Sprintf("%d, %d open", v.Audits, v.Pending)
	}
	return fmt.Sprint(v.Audits)
}

// waitText is how long it takes to the first certificate.
func waitText(v *gateway.RiskView) string {
	switch {
	case v.State == gateway.RiskInfeasible:
		return "infeasible"
	case v.OperatingIndex > 0:
		return none
	case v.ScoresWanted > 0 && v.SecondsToCertify != nil:
		return fmt.Sprintf("in %s (%s)", span(*v.SecondsToCertify), leftText(v))
	case v.ScoresWanted > 0:
		return fmt.Sprintf("learning %d/%d", v.ScoresLearned, v.ScoresWanted)
	case v.AuditsToCertify == nil:
		return "out of reach"
	case *v.AuditsToCertify < .5:
		return "soon, unless one is bad"
	case v.SecondsToCertify != nil:
		return fmt.Sprintf("in %s (%.0f audits)", span(*v.SecondsToCertify), *v.AuditsToCertify)
	}
	return fmt.Sprintf("%.0f audits to go", *v.AuditsToCertify)
}

// riskText is what is known of the risk, and of its drift.
func riskText(v *gateway.RiskView) string {
	if v.Audits == 0 {
		return "nothing is known of the risk yet"
	}
	text := fmt.Sprintf("risk %s (%s … %s), proven below %s", percent(v.Estimate), percent(v.Lower), percent(v.Upper), percent(v.Bound))
	if v.DriftLevel > 0 {
		text += "; drift " + percent(v.DriftLevel)
	}
	if v.DriftWarned {
		text += " WARNED"
	}
	if v.DriftAlarms > 0 {
		text += "; " + counted(int(v.DriftAlarms), "alarm", "alarms") + " so far"
	}
	return text
}

// saysText is what else there is to say of a kind of request; "" where the other columns say it all.
func saysText(v *gateway.RiskView) string {
	switch v.State {
	case gateway.RiskWarmup, gateway.RiskStopped, gateway.RiskInfeasible:
		return v.Summary
	case gateway.RiskLearning, gateway.RiskUncertified:
		if v.Warmup != nil {
			return v.Summary
		}
	}
	return ""
}

// promiseText is how a route's promise stands, in one line of foregate status.
func promiseText(p gateway.RiskSummary) string {
	text := fmt.Sprintf("at most %s refused, with probability %s: %d of %s certified", percent(p.MaxWrongRate), percent(1-p.ErrorProbability), p.Certified, counted(p.Classes, "kind", "kinds"))
	for _, part := range []struct {
		n    int
		what string
	}{{p.Inherited, "inherited"}, {p.Infeasible, "infeasible"}, {p.Warned, "WARNED of drift"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}
