package virtual

import (
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

const small = `
about: A small cascade.
duration: 60s
arrivals: {poisson: 4}
prompts:
  - {name: chat, weight: 1, question: {p50: 30, p95: 120}, turns: {min: 1, max: 3}, think: 2, max_tokens: 512}
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1.01, divergence: 0.2}
target: {profile: h100-70b-tp4, count: 1, usd_per_hour: 27.5}
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
