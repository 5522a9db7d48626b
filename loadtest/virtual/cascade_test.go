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

func TestAHungBackendIsLeftAtTheFirstByteTimeOutWhenTheLengthIsKnown(t *testing.T) {
	if r := withFault(t, "hang: headers"); r.Errors > 0 || r.E2E99 < 30_000 {
		t.Errorf("%d errors, slowest answer %v ms; want the hung ones answered elsewhere after 30 s and more", r.Errors, r.E2E99)
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

func TestAContinuationThatIsLostUnseenIsAnsweredAfresh(t *testing.T) {
	s := scenario(t, `
about: x
duration: 60s
arrivals: {rate: 2}
prompts: [{name: c, question: 50, max_tokens: 200, stream: false}]
draft: {profile: a10g-8b, usd_per_hour: 1, divergence: 0.7}
target: {profile: a100-8b, usd_per_hour: 1}
settings: {speculation.mode: confidence, speculation.threshold_nats: "0.3", economy.guard: "off", retry.max_retries: "0"}
faults: [{at: 10s, for: 40s, pool: target, backend: 0, status: 500, rate: 0.5}]
`)
	r := row(t, s, 1)
	// Half of the calls to the target fail and are not retried. Who escalates with
	// something in hand has a second chance, so fewer than half of them are lost.
	if r.Escalated == 0 || r.Errors == 0 || float64(r.Errors) > 0.4*float64(r.Escalated+r.Errors) {
		t.Errorf("%d escalated, %d lost", r.Escalated, r.Errors)
	}
}
