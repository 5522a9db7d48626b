package virtual

import (
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// faulty is a load on two targets of which one fails; PROMPT and FAULT vary.
const faulty = `
about: x
duration: 60s
deadline: 2m
arrivals: {rate: 2}
prompts: [{name: fixed, question: 50, output: 100, stream: false}]
target: {profile: a100-8b, count: 2, usd_per_hour: 1, restart: 10s}
settings: {speculation.mode: "off", route.policy: round_robin}
faults: [{at: 20s, for: 10s, pool: target, backend: 0, FAULT}]
`

func withFault(t *testing.T, fault string) loadtest.Row {
	t.Helper()
	return row(t, scenario(t, replace(faulty, "FAULT", fault)), 1)
}

func TestARetriedAnswerHoldsNothingOfTheLostAttempt(t *testing.T) {
	r := withFault(t, "die: true")
	perAnswer := r.TokensPerSecond / r.RequestsPerSecond
	if r.Errors > 0 || perAnswer < 99.999 || perAnswer > 100.001 {
		t.Errorf("%d errors, %v tokens an answer, want none and 100", r.Errors, perAnswer)
	}
	if r.OOMDeaths != 0 {
		t.Errorf("a fault counts as %d deaths of a full cache", r.OOMDeaths)
	}
}

func TestRatesAreOverTheTimeUntilTheLastAnswerNotTheLastError(t *testing.T) {
	s := scenario(t, replace(faulty, "FAULT", "hang: stream", "count: 2", "count: 1", "stream: false", "stream: true", "deadline: 2m", "deadline: 10m"))
	r, err := Run(t.Context(), s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Row().Errors == 0 || r.Window.Seconds() > 70 {
		t.Errorf("%d errors, window %v", r.Row().Errors, r.Window)
	}
}
