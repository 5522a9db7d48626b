package virtual

import (
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// repeating asks the same few things again and again; EVERY (a second), SIZE, SETTINGS and REST vary.
const repeating = `
about: x
duration: 60s
replicas: 3
arrivals: {rate: EVERY}
prompts: [{name: ask, system: {tokens: 100, variants: 1}, question: 50, output: 100, catalogue: {share: 1, size: SIZE}}]
target: {profile: a100-8b, count: 1, usd_per_hour: 1}
settings: {speculation.mode: "off", SETTINGS}
REST
`

func repeated(t *testing.T, every, size, settings, rest string) (loadtest.Row, *loadtest.Result) {
	t.Helper()
	s := scenario(t, replace(repeating, "EVERY", every, "SIZE", size, "SETTINGS", settings, "REST", rest))
	r, err := Run(t.Context(), s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	return r.Row(), r
}

// generated are the tokens that backends made.
func generated(r *loadtest.Result) (n int) {
	for _, u := range r.Pools {
		n += u.Generated
	}
	return n
}

func TestARepeatIsServedWithoutABackendOnWhicheverReplica(t *testing.T) {
	row, r := repeated(t, "0.5", "1", `cache.mode: "on"`, "")
	if row.Requests < 29 || row.Cached != row.Requests-1 || row.Coalesced > 0 || generated(r) != 100 {
		t.Errorf("%d requests, %d cached, %d coalesced, %d tokens made; want all but one cached, and 100 tokens", row.Requests, row.Cached, row.Coalesced, generated(r))
	}
	if row.TTFT50 < 0.79 || row.TTFT50 > 0.81 {
		t.Errorf("a hit takes %v ms, want the four hops from client to Redis and back", row.TTFT50)
	}
	if row.Identical != 1 || row.TokensPerSecond < 45 {
		t.Errorf("%v identical, %v tokens/s: a hit is not the answer that was kept", row.Identical, row.TokensPerSecond)
	}
}

func TestNothingIsServedFromACacheThatIsOff(t *testing.T) {
	row, r := repeated(t, "0.5", "1", `cache.mode: "off"`, "")
	if row.Cached+row.Coalesced > 0 || generated(r) != 100*row.Requests {
		t.Errorf("%d cached, %d coalesced, %d tokens made for %d requests", row.Cached, row.Coalesced, generated(r), row.Requests)
	}
}

func TestSampledRequestsUnderWayShareNothing(t *testing.T) {
	s := scenario(t, replace(repeating, "EVERY", "100", "SIZE", "1", "SETTINGS", "", "REST", "", "output: 100", "output: 100, temperature: 0.7"))
	r, err := Run(t.Context(), s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Row(); row.Coalesced > 0 || row.Cached == 0 {
		t.Errorf("%d coalesced, %d cached of %d", row.Coalesced, row.Cached, row.Requests)
	}
}

func TestAnAnswerIsMadeAgainWhenItsTimeIsOver(t *testing.T) {
	row, _ := repeated(t, "0.5", "1", `cache.ttl: 10s`, "")
	if made := row.Requests - row.Cached; made < 5 || made > 7 {
		t.Errorf("%d of %d were made, want one in each 9 to 10 s", made, row.Requests)
	}
}

func TestTenantsShareNoAnswers(t *testing.T) {
	row, _ := repeated(t, "4", "1", `cache.mode: "on"`, "tenants: [{id: a}, {id: b}, {id: c}]")
	if made := row.Requests - row.Cached; made < 3 || made > 20 {
		t.Errorf("%d were made, want at least one for each tenant", made)
	}
}

func TestIdenticalRequestsUnderWayShareOneGenerationOfEachReplica(t *testing.T) {
	for name, stream := range map[string]string{"streams": "true", "JSON": "false"} {
		s := scenario(t, replace(repeating, "EVERY", "100", "SIZE", "1", "SETTINGS", `cache.mode: "on"`, "REST", "", "output: 100", "output: 100, stream: "+stream))
		r, err := Run(t.Context(), s, &s.Cases[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		row := r.Row()
		if generated(r) != 300 || row.Coalesced < 50 || row.Cached+row.Coalesced != row.Requests-3 || row.Errors > 0 {
			t.Errorf("%s: %d tokens made, %d coalesced and %d cached of %d, %d errors", name, generated(r), row.Coalesced, row.Cached, row.Requests, row.Errors)
		}
	}
}

func TestALeaderWhoLeavesDoesNotTakeTheAnswerWithHim(t *testing.T) {
	row, r := repeated(t, "1", "1", `cache.mode: "on"`, "deadline: 5s\nfaults: [{at: 0s, for: 20s, pool: target, backend: 0, slow: 10}]")
	if generated(r) != 300 || row.Errors == 0 || row.Coalesced == 0 || row.Cached == 0 { // one answer of each replica
		t.Errorf("%d tokens made, %d errors, %d coalesced, %d cached", generated(r), row.Errors, row.Coalesced, row.Cached)
	}
}

func TestAFollowerOfAFailedGenerationLeadsTheNext(t *testing.T) {
	row, _ := repeated(t, "10", "1", `retry.max_retries: "0"`, "faults: [{at: 0s, for: 3s, pool: target, backend: 0, die: true}]")
	if row.Errors == 0 || row.Cached == 0 || row.Requests-row.Errors != row.Cached+row.Coalesced+3 {
		t.Errorf("%d requests, %d errors, %d cached, %d coalesced: want one generation of each replica that succeeds", row.Requests, row.Errors, row.Cached, row.Coalesced)
	}
}

func TestAnEngineSharesNoPrefixBetweenTenantsWhereTheyAreIsolated(t *testing.T) {
	hits := func(isolate string) float64 {
		row, _ := repeated(t, "1", "1000", `cache.isolate_prefixes: "`+isolate+`"`, "tenants: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e}, {id: f}]")
		return row.PrefixHitRate
	}
	if apart, shared := hits("yes"), hits("no"); apart == 0 || apart >= shared {
		t.Errorf("%v of the prompts' tokens are found where tenants are isolated, %v where not", apart, shared)
	}
}
