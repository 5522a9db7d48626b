package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// bare is a replica that knows nothing.
type bare struct {
	gateway.Replica
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
	return &keyboard{t: t, file: apptest.File(t, "foregate.yaml", `listen: 127.0.0.1:0
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
		Settings: settings.New(settings.Options{}), Ledger: ledger.New(ledger.Options{}), Replica: bare{}, Evidence: a.Book, Refits: refit.New(refit.Options{})})
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
	embedded := apptest.File(t, "foregate.yaml", `listen: 127.0.0.1:0
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

// goodAudit is a line as export writes it.
const goodAudit = `{"route":"chat","traffic_class":"to_1k.0a1b2c3d","when":"2026-01-02T03:04:05.678Z","ticket":"T-1","score":-0.25,"floor":-0.5,"threshold":1000000000,"chance":0.05,"served":false,"features":[-0.25,-1,-0.5,-2,-4],"tokens":80,"grid":1700000000000000,"alarm":0,"label":"lost","request":"0a1b"}`

func TestWhatIsNoAuditIsRefusedByLineAndField(t *testing.T) {
	const numbers, counts = "line 2: score, floor, threshold, features: want numbers from -1e9 to 1e9", "line 2: tokens, grid, alarm: want counts"
	for old, tc := range map[string]struct{ with, want string }{
		`"score":-0.25`:   {`"score":NaN`, "line 2: invalid character 'N' looking for beginning of value"},
		`"floor":-0.5`:    {`"floor":-1e10`, numbers},
		`"chance":0`:      {`"chance":2`, "line 2: chance: want a probability"},
		`"served":false`:  {`"served":0`, "line 2: json: cannot unmarshal number into Go struct field LogEntry.served of type bool"},
		`"tokens":80`:     {`"tokens":-1`, counts},
		`"label":"lost`:   {`"label":"fine`, "line 2: label: want good, bad or lost"},
		`"ticket":"T-1"`:  {`"ticket":"T 1"`, "line 2: ticket, request: want 1 to 64 letters, digits and hyphens"},
		`"route":"chat"`:  {`"route":"ch\u0007at"`, `line 2: risk: route "ch\aat" is not 1 to 256 printable bytes`},
		`.0a1b2c3d"`:      {`.0a1b2c3d-v3"`, "line 2: traffic_class: it is of the fitted score 3, which only its own fleet has"},
		`"2026-01-02`:     {`"1026-01-02`, "line 2: when: want a time such as 2006-01-02T15:04:05Z"},
		`"score":-0.25,`:  {``, "line 2: score: is missing"},
		`-0.5,"thr`:       {`null,"thr`, "line 2: floor: is missing"},
		`,"label":"lost"`: {``, "line 2: label: want good, bad or lost"},
		`"tokens":80,`:    {`"tokens":80,"more":80,`, `line 2: json: unknown field "more"`},
	} {
		line := strings.Replace(goodAudit, old, tc.with, 1)
		if line == goodAudit {
			t.Fatalf("%s is not in the line", old)
		}
		if batches, err := readAudits(strings.NewReader(goodAudit+"\n"+line+"\n"), ""); err == nil || err.Error() != tc.want || len(batches) != 0 {
			t.Errorf("%s: %v, want %s", old, err, tc.want)
		}
	}
}

// auditRule is the default promise.
var auditRule = risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}

// testAudits are made by real openings and closings.
type testAudits struct {
	Book *evidence.Store
	dice *rand.Rand
	n    int
}

// newAudits returns audits with a fixed random source.
func newAudits(client redis.UniversalClient) *testAudits {
	return &testAudits{
		Book: evidence.New(evidence.Options{Redis: client, Rule: func(string) risk.Rule { return auditRule }, Warmup: func(string) time.Duration { return time.Hour }, Economics: economicsOf}),
		dice: rand.New(rand.NewPCG(3, 4)),
	}
}

// Learn adds scores without outcomes, evenly from 0 to 1.
func (a *testAudits) Learn(t testing.TB, k risk.Key, n int) {
	t.Helper()
	for i := range n {
		if fate := a.Open(t, k, float64(i)/risk.GridScores); fate != risk.Learned {
			t.Fatalf("%s: score %d was %s", k, i, fate)
		}
	}
}

// Audit makes n audits of drafts within the region; every badEvery-th is bad, 0 is none.
func (a *testAudits) Audit(t testing.TB, k risk.Key, n, badEvery int) {
	t.Helper()
	for i := range n {
		floor := a.Book.View(k).Floor
		if fate := a.Open(t, k, floor+(1-floor)*a.dice.Float64()); fate != risk.Opened {
			t.Fatalf("%s: audit %d was %s", k, i, fate)
		}
		if err := a.Book.Close(t.Context(), k, a.Ticket(), badEvery > 0 && i%badEvery == badEvery-1); err != nil {
			t.Fatal(err)
		}
	}
}

// Ticket is the id of the last audit.
func (a *testAudits) Ticket() string { return fmt.Sprintf("t%06d", a.n) }

// Open begins an audit with the next ticket.
func (a *testAudits) Open(t testing.TB, k risk.Key, score float64) risk.OpenResult {
	t.Helper()
	a.n++
	fate, err := a.Book.Open(t.Context(), risk.Audit{
		Decision: a.Book.View(k).Decide(k, risk.Sampling{Rate: 1}, 0), Ticket: a.Ticket(), Score: score,
		Features: []float64{score - 1, score - 2, -a.dice.Float64(), score - 3, -4}, Tokens: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	return fate
}

// auditKey returns a key with the rules of these tests.
func auditKey(route, length string) risk.Key {
	return risk.Key{Route: route, TrafficClass: length + ".0a1b2c3d"}
}

// Mixed makes a key of each state: certified with an audit in progress, uncertified, learning, and infeasible.
func (a *testAudits) Mixed(t testing.TB) {
	t.Helper()
	certified := auditKey("chat", "to_1k")
	a.Learn(t, certified, risk.GridScores)
	a.Audit(t, certified, 400, 150)
	a.Open(t, certified, .99)
	uncertified := auditKey("chat", "to_4k")
	a.Learn(t, uncertified, risk.GridScores)
	a.Audit(t, uncertified, 20, 0)
	a.Learn(t, auditKey("chat", "above_4k"), 120)
	infeasible := auditKey("code", "to_1k")
	a.Learn(t, infeasible, risk.GridScores)
	a.Audit(t, infeasible, 40, 2)
}
