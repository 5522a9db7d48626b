package virtual

import (
	"strings"
	"testing"
)

func TestASettingIsInForceFromItsChangeUntilItsEnd(t *testing.T) {
	row, r := repeated(t, "0.5", "1", `cache.mode: "on"`, `changes: [{at: 20s, for: 20s, settings: {cache.mode: "off"}}]`)
	if made := generated(r) / 100; made != 11 || row.Cached != row.Requests-made {
		t.Errorf("%d answers were made for %d requests, want the first one and the ten of the twenty seconds without a cache", made, row.Requests)
	}
}

func TestAChangeThatNoGatewayTakesEndsTheRun(t *testing.T) {
	for change, want := range map[string]string{
		"cache.mode: maybe": "changes[0]: setting cache.mode: ",
		"cache.moode: on":   "changes[0]: setting cache.moode: ",
	} {
		s := scenario(t, replace(repeating, "EVERY", "1", "SIZE", "1", "SETTINGS", `cache.mode: "on"`, "REST", "changes: [{at: 20s, settings: {"+change+"}}]"))
		if _, err := Run(t.Context(), s, &s.Cases[0], 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func TestASettingThatIsSetWithoutRedisIsHeardAfterwards(t *testing.T) {
	row, r := repeated(t, "0.5", "1", `cache.mode: "on"`, "changes: [{at: 20s, settings: {cache.mode: off}}]\nredis_away: [{at: 19s, for: 20s}]")
	if made := generated(r) / 100; made != 21 || row.Cached != row.Requests-made {
		t.Errorf("%d answers were made for %d requests, want the first one, ten without Redis and ten without a cache", made, row.Requests)
	}
}

func TestWithoutRedisNothingIsFoundAndWhatWasKeptIsThereAfterwards(t *testing.T) {
	row, r := repeated(t, "0.5", "1", `cache.mode: "on"`, `redis_away: [{at: 19s, for: 20s}]`)
	if made := generated(r) / 100; made != 11 || row.Cached != row.Requests-made {
		t.Errorf("%d answers were made for %d requests, want the first one and the ten of the twenty seconds without Redis", made, row.Requests)
	}
}

// routing sends a share of the requests to the draft, by chance.
const routing = `
about: x
duration: 60s
arrivals: {rate: 5}
prompts: [{name: ask, question: 50, output: 20}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1, divergence: 0.3}
target: {profile: h100-70b-tp4, count: 1, usd_per_hour: 27}
settings: {cache.mode: "off", speculation.mode: confidence}
compare: [{name: routed, router: 0.25}]
`

func TestARouterSendsItsShareToTheDraftAndJudgesNothing(t *testing.T) {
	s := scenario(t, routing)
	r, err := Run(t.Context(), s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	row, made := r.Row(), map[string]int{}
	for _, u := range r.Pools {
		made[u.Tier] += u.Generated
	}
	total := made["draft"] + made["target"]
	if share := float64(made["draft"]) / float64(total); share < 0.18 || share > 0.32 || total != 20*row.Requests {
		t.Errorf("the draft made %.2f of %d tokens for %d requests", share, total, row.Requests)
	}
	if row.Acceptance != 0 || row.Escalated != 0 {
		t.Errorf("acceptance %v, %d escalated, though nothing was judged", row.Acceptance, row.Escalated)
	}
}
