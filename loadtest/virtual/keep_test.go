package virtual

import (
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// keeping asks 45 % standing questions, popular by Zipf's law, of a draft model that is often wrong; nothing is certified.
const keeping = `
about: x
duration: 5m
warmup: 0s
replicas: 2
arrivals: {poisson: 4}
prompts: [{name: ask, question: {p50: 60, p95: 150, max: 300}, output: {p50: 60, p95: 120, max: 150}, catalogue: {share: 0.45, size: 100, zipf: 1}}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1.01, divergence: 0.3}
target: {profile: h100-70b-tp4, count: 1, usd_per_hour: 27.5}
settings: {cache.ttl: 1h, speculation.mode: confidence, cache.verify_drafts: VERIFY}
`

// TestAWrongDraftIsNotMultipliedByTheCache compares the wrong answers from the cache.
func TestAWrongDraftIsNotMultipliedByTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	rows := map[string]loadtest.Row{}
	for _, verify := range []string{"never", "doubtful", "always"} {
		s := scenario(t, replace(keeping, "VERIFY", verify))
		r, err := Run(t.Context(), s, &s.Cases[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		rows[verify] = r.Row()
		t.Logf("%s: %.1f %% from the cache, %d of these drafts, %.1f %% of them wrong", verify, 100*rows[verify].CacheHitRate, rows[verify].SharedDrafts, 100*rows[verify].WrongShared)
	}
	never, doubtful, always := rows["never"], rows["doubtful"], rows["always"]
	if never.WrongShared < 0.05 || never.SharedDrafts < 100 {
		t.Errorf("unchecked, %.3f of %d drafts from the cache are wrong: the test shows nothing", never.WrongShared, never.SharedDrafts)
	}
	if doubtful.WrongShared > 0.8*never.WrongShared || always.WrongShared > 0.01 {
		t.Errorf("wrong drafts from the cache: %.3f unchecked, %.3f with doubtful ones checked, %.3f with all", never.WrongShared, doubtful.WrongShared, always.WrongShared)
	}
	if always.CacheHitRate < never.CacheHitRate-0.05 {
		t.Errorf("hits: %.3f unchecked, %.3f checked", never.CacheHitRate, always.CacheHitRate)
	}
}
