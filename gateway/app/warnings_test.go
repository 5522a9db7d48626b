package app

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestAModelThatNoRouteHasIsAWarningAndNoMistake(t *testing.T) {
	f, err := config.Parse("f", []byte(`pools: {p: {model: m, backends: ['http://h']}}
routes: [{model: llama-3, target: p}, {model: code-a, target: p}]
identity: {mode: trusted_headers, trusted_proxies: [10.0.0.0/8], unlisted_tenants: default, default_tenant: {models: [gone-*]}}
tenants: [{id: acme, models: [llama-3, "code-*", "llama-4"]}, {id: beta, models: ["*"]}, {id: gamma}]
`))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(f)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(found.Warnings, func(w string) bool { return !strings.Contains(w, "of its models") })
	want := []string{"tenant acme: no route has the model llama-4 of its models", "identity.default_tenant: no route has the model gone-* of its models"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBudgetsThatCannotBeEnforcedAreWarnings(t *testing.T) {
	f, err := config.Parse("f", []byte(`pools:
  free: {model: m, backends: ['http://h']}
  given: {model: m, backends: ['http://h'], usd_per_hour: 0}
  paid: {model: m, backends: ['http://i'], usd_per_hour: 4}
routes: [{model: llama-3, draft: free, target: paid}, {model: llama-4, draft: given, target: paid}]
tenants_file: tenants
`))
	if err != nil {
		t.Fatal(err)
	}
	tenants := []identity.Tenant{ // that were there before the pools were
		{ID: "acme", Access: identity.Access{Budgets: []identity.Budget{{NanoUSD: 5}}}}, {ID: "beta", Access: identity.Access{Budgets: []identity.Budget{{Tokens: 2}}}}, {ID: "gamma"},
	}
	got := slices.DeleteFunc(warnings(f, tenants), func(w string) bool { return !strings.Contains(w, "budgets of") && !strings.Contains(w, "budgets in") })
	want := []string{
		"the budgets in USD of acme are not enforced for requests to pools.free, which has no usd_per_hour: they are charged nothing; set usd_per_hour",
		"redis.url is none: the budgets of acme and beta begin anew whenever this process starts, and every replica counts its own",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPoolsThatCannotBeComparedAreWarnedOf(t *testing.T) {
	const file = `listen: 127.0.0.1:0
redis: {url: "redis://127.0.0.1:1"}
pools:
  d: {model: d, backends: ["http://127.0.0.1:1"], usd_per_hour: 1, prefill_tokens_per_s: 10000, decode_tokens_per_s: 1000}
  a: {model: m, backends: ["http://127.0.0.1:2"], usd_per_hour: 10, prefill_tokens_per_s: 10000, decode_tokens_per_s: 100}
  b: {model: m, backends: ["http://127.0.0.1:3"]}
  cheap: {model: n, backends: ["http://127.0.0.1:4"], usd_per_hour: 0.1, prefill_tokens_per_s: 100000, decode_tokens_per_s: 10000}
routes:
`
	const shared = "pools.b has the model and revision of another target"
	for route, want := range map[string][]string{
		"target: a": nil,
		"targets: [{pool: a, weight: 1}, {pool: cheap, weight: 1}]":           nil,
		"targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]":               {shared},
		"draft: d, targets: [{pool: a, weight: 1}, {pool: cheap, weight: 1}]": {"a draft token costs as much as a target token or more"},
	} {
		f, err := config.Parse("f", []byte(file+"  - {model: x, "+route+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := append(economyWarnings(f), targetWarnings(f)...)
		if len(got) != len(want) {
			t.Errorf("%s: %q", route, got)
			continue
		}
		for i, w := range want {
			if !strings.Contains(got[i], w) || !strings.HasPrefix(got[i], "route x: ") {
				t.Errorf("%s: warning %q, want %q", route, got[i], w)
			}
		}
	}
}

// priced is a configuration of a draft and a target with these fields.
func priced(t *testing.T, draft, target string) *config.File {
	t.Helper()
	f, err := config.Parse("priced", fmt.Appendf(nil, `listen: 127.0.0.1:0
pools:
  small: {model: m, %s backends: ["http://h:1"]}
  large: {model: n, %s backends: ["http://h:2"]}
routes: [{model: llama, draft: small, target: large}, {model: plain, target: large}]
`, draft, target))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCheckTellsWhereDraftsCannotPay(t *testing.T) {
	const a10g = "usd_per_hour: 1.006, prefill_tokens_per_s: 1960, decode_tokens_per_s: 1400,"
	rates := "prefill_tokens_per_s: 11200, decode_tokens_per_s: 2600,"
	for name, c := range map[string]struct{ draft, target, want string }{
		"they pay": {a10g, "usd_per_hour: 13.76, " + rates, ""},
		"not for long prompts": {a10g, "usd_per_hour: 5, " + rates,
			"route llama: drafts cannot pay for prompts of 4000 tokens with answers of 150 (104 % of them would have to be served): a million tokens cost 0.143 USD (prompt) and 0.200 USD (answer) at small, " +
				"0.124 and 0.534 at large; such requests will go straight to the target, so set speculation.max_prompt_tokens to shorter prompts, or take a cheaper draft pool"},
		"never": {a10g, "usd_per_hour: 0.5, " + rates,
			"route llama: a draft token costs as much as a target token or more (a million: 0.200 USD at small, 0.053 at large): drafts cannot save cost; take a cheaper draft pool, or leave its draft out"},
		"no rates": {"usd_per_hour: 1, decode_tokens_per_s: 900,", "usd_per_hour: 13.76, " + rates,
			"route llama: pools.small or pools.large has no prefill_tokens_per_s or decode_tokens_per_s: whether drafts pay is judged by the speeds that are learned, and not before they are"},
		"nothing": {"", a10g,
			"route llama: pools.small or pools.large has no usd_per_hour: nobody can tell whether drafts pay, and none is left out because it costs more than it saves"},
	} {
		found, err := Check(priced(t, c.draft, c.target))
		if got := strings.Join(found.Warnings, "\n"); err != nil || got != c.want {
			t.Errorf("%s: %v, got %q, want %q", name, err, got, c.want)
		}
	}
}

func TestPricesAreThoseOfTheFileAndElseWhatPoolsLearn(t *testing.T) {
	f := priced(t, "usd_per_hour: 3.6, decode_tokens_per_s: 500,", "usd_per_hour: 36, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2500,")
	now := time.Unix(1_800_000_000, 0)
	r := &routing{file: f, pools: map[string]*servedPool{}}
	for name, def := range f.Pools {
		p, err := pool.New(pool.Options{Name: name, Model: def.Model, Backends: def.Backends, Price: priceOf(def), Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		r.pools[name] = &servedPool{Pool: p}
	}
	prices := r.prices(f.Routes[0])
	if p := prices(); p.Draft().Known() || math.Abs(p.TargetPrefill/(0.01/10_000)-1) > 1e-9 || math.Abs(p.TargetDecode/(0.01/2500)-1) > 1e-9 {
		t.Errorf("before anything is learned: got %+v", p)
	}
	learn(t, r.pool("small"), &now)
	if p := prices(); !p.Complete() || math.Abs(p.DraftPrefill/(0.001/2000)-1) > .05 || math.Abs(p.DraftDecode/(0.001/500)-1) > 1e-9 {
		t.Errorf("got %+v, want a draft's prompt at %g", p, 0.001/2000)
	}
	if p := r.prices(f.Routes[1])(); p.Complete() {
		t.Errorf("a route without a draft has prices %+v", p)
	}
	if strings.Contains(strings.Join(warnings(f, nil), " "), "plain") {
		t.Error("a route without a draft is warned of")
	}
}

// learn has a pool of one backend compute 40 prompts at 2,000 tokens a second, and answers.
func learn(t *testing.T, p *pool.Pool, now *time.Time) {
	t.Helper()
	for i := range 40 {
		p.Observe(p.Snapshot()[0].ID, pressure.Reading{At: *now, Running: 8, Iterations: float64(i), GenerationTokens: float64(i) * 400, KVUsage: .1 + float64(i)/1000, BlockSize: 16, Blocks: 10_001, Engines: 1}, nil)
		var l pool.Lease
		if err := p.PickInto(&l, &pool.Demand{PromptTokens: 1000}); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(500 * time.Millisecond)
		l.FirstToken()
		l.Done(1)
	}
}
