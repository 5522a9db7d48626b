package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"

	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/tiers/world"
)

// bare is a replica that knows nothing.
type bare struct {
	gateway.Replica
	gateway.Fleet
}

func (bare) SettingsStore() *settings.Store { return nil }

func (bare) Health() (h gateway.Health) { return h }

var (
	// timed is how long some more audits take.
	timed = regexp.MustCompile(` \(\d\S*( \d+\S*)?[smhd]\)`)
)

// keyboard is where an operator types commands; it keeps what comes.
type keyboard struct {
	t    *testing.T
	file string // configuration
	b    strings.Builder
}

// newOperator has a configuration with two routes and a Redis.
func newOperator(t *testing.T, n *redistest.Server) *keyboard {
	t.Helper()
	t.Setenv("FOREGATE_REDIS", "")
	t.Setenv("FOREGATE_ADMIN", "")
	return &keyboard{t: t, file: configFile(t, `listen: 127.0.0.1:0
redis: {url: "redis://`+n.Addr+`/0"}
pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: chat, target: p}, {model: code, target: p}]
`)}
}

// enter types a command, and returns what came on the standard output.
func (k *keyboard) enter(line string, args ...string) string {
	k.t.Helper()
	status, out, errs := call(k.t, append(append(strings.Fields(line), args...), "-c", k.file)...)
	k.b.WriteString("$ foregate " + line + "\n" + out + errs)
	if status != 0 {
		k.b.WriteString("(status " + string(rune('0'+status)) + ")\n")
	}
	k.b.WriteString("\n")
	return out
}

// compare compares all that came with a golden file.
func (k *keyboard) compare(name string) {
	k.t.Helper()
	text := strings.ReplaceAll(k.b.String(), filepath.Dir(k.file), "DIR")
	golden.Check(k.t, "testdata/"+name, text)
}

// TestTheEvidenceIsLookedAfterFromTheCommandLine goes through all that an operator does with
// evidence that real audits made; the file holds what was typed and what came.
func TestTheEvidenceIsLookedAfterFromTheCommandLine(t *testing.T) {
	n := redistest.Start(t)
	o := newOperator(t, n)
	a := auditsAt(t, n)
	a.Mixed(t)
	status, out, errs := call(t, "risk", "export", "--route", "code", "--since", "1h", "-c", o.file)
	if status != 0 || strings.Count(out, "\n") != 40 || errs != "40 audits: 20 good, 20 bad, 0 lost or under way\n" {
		t.Errorf("status %d, %d lines, %q", status, strings.Count(out, "\n"), errs)
	}
	o.enter("risk export --route nobody")
	o.enter("risk export --since=-1s")
	o.enter("risk reset --route chat")
	o.enter("risk reset --route chat --yes")
	o.enter("risk reset --route chat --yes")
	o.enter("risk reset --route nobody --yes")
	o.enter("risk reset --route code --yes")
	o.compare("risk.txt")
}

// TestAnExportedLogIsEvidenceElsewhere carries audits from one Redis to another, and back.
func TestAnExportedLogIsEvidenceElsewhere(t *testing.T) {
	from := redistest.Start(t)
	a := auditsAt(t, from)
	k := auditKey("chat", "to_1k")
	a.Learn(t, k, risk.GridScores)
	a.Audit(t, k, 320, 80)
	a.Open(t, k, .99) // and nobody ever hears of it
	few := auditKey("chat", "to_4k")
	a.Learn(t, few, risk.GridScores)
	a.Audit(t, few, 30, 0)
	o := newOperator(t, from)
	file := filepath.Join(filepath.Dir(o.file), "audits.jsonl")
	status, out, errs := call(t, "risk", "export", "-c", o.file)
	if status != 0 || strings.Count(out, "\n") != 351 || errs != "351 audits: 346 good, 4 bad, 1 lost or under way\n" {
		t.Errorf("status %d, %d lines: %s", status, strings.Count(out, "\n"), errs)
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := newOperator(t, redistest.Start(t))
	elsewhere.enter("risk import", file)
	elsewhere.enter("risk import --route chat", file)
	elsewhere.enter("risk import --route code", file)
	elsewhere.enter("risk import", filepath.Join(filepath.Dir(file), "nowhere.jsonl"))
	elsewhere.enter("risk reset --route chat --yes")
	o.b.WriteString(strings.ReplaceAll(elsewhere.b.String(), filepath.Dir(elsewhere.file), "DIR"))
	o.enter("risk import", file) // back where it came from
	o.compare("riskimport.txt")
}

// auditsAt are kept in a Redis. Their client is one that waits: a busy machine is no matter here.
func auditsAt(t *testing.T, n *redistest.Server) *testAudits {
	t.Helper()
	var r config.Redis
	if err := r.URL.UnmarshalText([]byte("redis://" + n.Addr)); err != nil {
		t.Fatal(err)
	}
	client, err := stores.OpenForOperator(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // only connections are lost
	return newAudits(client)
}

// economicsOf is what requests of these tests are like; those to code have no prices.
func economicsOf(k risk.Key) risk.Economics {
	w := audit.Workload{PerDay: 10_000, Prompt: 500, Output: 300, Holdback: 48}
	c := &plan.Config{Mode: plan.ModeRisk, Risk: plan.Risk{Label: plan.LabelLenient, Rates: risk.Rates{Audit: .05, Explore: .02}}}
	if k.Route != "chat" {
		return w.Economics(economy.Prices{}, c)
	}
	return w.Economics(economy.Prices{DraftPrefill: .143e-6, DraftDecode: .2e-6, TargetPrefill: .341e-6, TargetDecode: 1.47e-6}, c)
}

// TestAReplicaTellsWhatAuditsHaveShown asks a gateway whose evidence is in this process.
func TestAReplicaTellsWhatAuditsHaveShown(t *testing.T) {
	a := newAudits(nil)
	a.Mixed(t)
	target, err := pool.New(pool.Options{Name: "p", Model: "m", Backends: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	cascade := tiers.New(tiers.Options{World: world.System{}, Routes: []tiers.Route{
		{Model: "chat", Target: target, Config: func() plan.Config { return plan.Config{} }}, {Model: "code", Target: target, Config: func() plan.Config { return plan.Config{} }},
	}})
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Cascade: cascade, Identity: who,
		Settings: settings.New(settings.Options{}), Ledger: ledger.New(ledger.Options{}), Replica: bare{}, Fleet: bare{}, Evidence: a.Book, Refits: refit.New(refit.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop(context.WithoutCancel(t.Context())) })
	admin := "http://" + g.AdminAddr().String()
	t.Setenv("FOREGATE_ADMIN", "")
	t.Setenv("FOREGATE_REDIS", "")
	status, out, errs := call(t, "risk", "show", "--admin", admin)
	golden.Check(t, "testdata/riskadmin.txt", out)
	if status != 0 || errs != "" {
		t.Errorf("status %d: %s", status, errs)
	}
	embedded := configFile(t, `listen: 127.0.0.1:0
admin: `+g.AdminAddr().String()+`
redis: {url: embedded}
pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: chat, target: p}, {model: code, target: p}]
`)
	status, through, errs := call(t, "risk", "show", "-c", embedded)
	if status != 0 || through != out {
		t.Errorf("status %d: %s%s", status, through, errs)
	}
	status, out, _ = call(t, "risk", "show", "--admin", admin, "--route", "code", "--json")
	if status != 0 || strings.Count(out, `"route"`) != 1 || !strings.Contains(out, `"state": "infeasible"`) || !strings.Contains(out, `"audits_to_certify": null`) {
		t.Errorf("status %d: %s", status, out)
	}
	if status, _, errs := call(t, "risk", "show", "--admin", admin, "--route", "nobody"); status != 1 || !strings.Contains(errs, "status 404") {
		t.Errorf("status %d: %s", status, errs)
	}
	status, out, errs = call(t, "risk", "show", "--frontier", "--admin", admin)
	golden.Check(t, "testdata/riskfrontier.txt", timed.ReplaceAllString(out, " (SOON)"))
	if status != 0 || errs != "" {
		t.Errorf("status %d: %s", status, errs)
	}
	status, out, _ = call(t, "risk", "show", "--frontier", "--admin", admin, "--route", "code", "--json")
	var answer risk.Frontiers
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 || len(answer.Frontiers) != 1 || answer.Frontiers[0].Route != "code" || answer.Frontiers[0].Priced {
		t.Errorf("%v, status %d: %s", err, status, out)
	}
}
