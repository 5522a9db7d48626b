package virtual

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest"
)

// scenario parses a scenario's text.
func scenario(t testing.TB, text string) *loadtest.Scenario {
	t.Helper()
	s, err := loadtest.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row runs the first case of a scenario.
func row(t testing.TB, s *loadtest.Scenario, seed uint64) loadtest.Row {
	t.Helper()
	r, err := Run(t.Context(), s, &s.Cases[0], seed)
	if err != nil {
		t.Fatal(err)
	}
	return r.Row()
}

func replace(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

const small = `
about: A small cascade.
duration: 60s
arrivals: {poisson: 4}
prompts:
  - {name: chat, weight: 1, question: {p50: 30, p95: 120}, turns: {min: 1, max: 3}, think: 2, max_tokens: 512}
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1.01, divergence: 0.2}
target: {profile: h100-70b-tp4, count: 1, usd_per_hour: 27.5}
settings: {speculation.mode: confidence}
`

func TestTheSameSeedGivesTheSameRowToTheDigit(t *testing.T) {
	s := scenario(t, small)
	a, b, c := row(t, s, 7), row(t, s, 7), row(t, s, 8)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	if a == c {
		t.Error("another seed gave the same row")
	}
	t.Logf("%+v", a)
}

func TestEveryRequestIsAccountedFor(t *testing.T) {
	for name, text := range map[string]string{
		"a draft pool": small,
		"three replicas, one backend dies twice": `
about: x
duration: 60s
arrivals: {poisson: 20}
replicas: 3
prompts: [{name: chat, weight: 1, question: 50, max_tokens: 200}]
target: {profile: a100-8b, count: 2, usd_per_hour: 1}
settings: {speculation.mode: "off"}
faults: [{at: 10s, for: 5s, pool: target, backend: 0, die: true}, {at: 30s, for: 5s, pool: target, backend: 0, die: true}]
`,
		"everything errs": `
about: x
duration: 20s
arrivals: {rate: 5}
prompts: [{name: chat, weight: 1, question: 50, max_tokens: 200}]
target: {profile: a100-8b, usd_per_hour: 1}
settings: {speculation.mode: "off"}
faults: [{at: 0s, for: 20s, pool: target, backend: all, die: true}]
`,
	} {
		s := scenario(t, text)
		r := row(t, s, 1)
		if r.Requests == 0 || r.Errors+r.Shed > r.Requests || r.Requests-r.Errors-r.Shed > 0 && r.TokensPerSecond <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
		if name == "everything errs" && r.Errors != r.Requests {
			t.Errorf("%d of %d failed at a pool that only errs", r.Errors, r.Requests)
		}
		if name != "everything errs" && r.Errors > r.Requests/10 {
			t.Errorf("%s: %d of %d failed", name, r.Errors, r.Requests)
		}
	}
}

const crowded = `
about: More than the cache holds.
duration: 120s
arrivals: {poisson: 6}
prompts: [{name: rag, weight: 1, question: 600, output: 400}]
tenants: [{id: a, weight: 1, priority: {low: 1, normal: 1}}]
target: {profile: a10g-13b, count: 2, usd_per_hour: 1, oom: OOM, restart: 20s}
settings: {speculation.mode: "off", shed.low: "SHED", shed.normal: "SHED", shed.high: "1", shed.forecast: "FORESEE", shed.max_wait_normal: 2s}
`

func crowd(t *testing.T, oom, shed string) loadtest.Row {
	t.Helper()
	foresee := "no"
	if shed != "1" {
		foresee = "yes"
	}
	return row(t, scenario(t, replace(crowded, "OOM", oom, "SHED", shed, "FORESEE", foresee)), 3)
}

func TestAnOverfullCacheKillsOrPreemptsAndSheddingHelps(t *testing.T) {
	dying, preempting, shedding := crowd(t, "true", "1"), crowd(t, "false", "1"), crowd(t, "false", "0.5")
	if dying.OOMDeaths == 0 || dying.Errors == 0 || dying.Preemptions != 0 {
		t.Errorf("with oom: %d deaths, %d errors, %d preemptions", dying.OOMDeaths, dying.Errors, dying.Preemptions)
	}
	if preempting.OOMDeaths != 0 || preempting.Preemptions == 0 {
		t.Errorf("without: %d deaths, %d preemptions", preempting.OOMDeaths, preempting.Preemptions)
	}
	if preempting.Shed != 0 || shedding.Shed == 0 || shedding.TTFT95 > preempting.TTFT95/2 {
		t.Errorf("shed %d, then %d; TTFT p95 %v ms, then %v", preempting.Shed, shedding.Shed, preempting.TTFT95, shedding.TTFT95)
	}
}

func TestWhatCannotBeRunIsRefusedWithItsPlace(t *testing.T) {
	for _, tc := range []struct{ old, with, want string }{
		{"profile: h100-70b-tp4", "profile: tpu", `test.yaml, case test: target pool: vllmsim: unknown profile "tpu"`},
		{"{speculation.mode: confidence}", "{speculation.mode: confidence, route.policy: nearest}", `setting route.policy`},
	} {
		s := scenario(t, strings.Replace(small, tc.old, tc.with, 1))
		_, err := Run(t.Context(), s, &s.Cases[0], 1)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "test, case", "test.yaml, case"), tc.want) {
			t.Errorf("%s: %v", tc.with, err)
		}
	}
	s := scenario(t, small)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, s, &s.Cases[0], 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run ended with %v", err)
	}
}
