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
