package virtual

import "testing"

func TestARetriedAnswerHoldsNothingOfTheLostAttempt(t *testing.T) {
	r := row(t, scenario(t, `
about: x
duration: 60s
deadline: 2m
arrivals: {rate: 2}
prompts: [{name: fixed, question: 50, output: 100, stream: false}]
target: {profile: a100-8b, count: 2, usd_per_hour: 1, restart: 10s}
settings: {speculation.mode: "off", route.policy: round_robin}
faults: [{at: 20s, for: 10s, pool: target, backend: 0, die: true}]
`), 1)
	perAnswer := r.TokensPerSecond / r.RequestsPerSecond
	if r.Errors > 0 || perAnswer < 99.999 || perAnswer > 100.001 {
		t.Errorf("%d errors, %v tokens an answer, want none and 100", r.Errors, perAnswer)
	}
	if r.OOMDeaths != 0 {
		t.Errorf("a fault counts as %d deaths of a full cache", r.OOMDeaths)
	}
}
