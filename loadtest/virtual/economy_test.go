package virtual

import (
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// TestDraftsSaveWhatIsPublished holds the committed rows to what the published cascade promises: a baseline that is rewritten must still say so.
func TestDraftsSaveWhatIsPublished(t *testing.T) {
	rows := baseline(t, "cascade")
	alone := rows["target_only"]
	for _, name := range []string{"confidence", "auto"} {
		r := rows[name]
		if saved := 1 - r.USDPerMTok/alone.USDPerMTok; saved < 0.45 {
			t.Errorf("%s saves %.3f, want at least 0.45", name, saved)
		}
		if r.DraftTokenShare < 0.6 || r.DraftTokenShare > 0.7 {
			t.Errorf("%s has %.3f of its tokens from the draft, want 0.6 to 0.7", name, r.DraftTokenShare)
		}
		if r.E2E99 > 0.52*alone.E2E99 || r.Errors+r.Shed > 0 {
			t.Errorf("%s: P99 %v ms, and the target alone %v; %d lost", name, r.E2E99, alone.E2E99, r.Errors+r.Shed)
		}
	}
	if rows["auto"].CheckedDisagreement > rows["confidence"].CheckedDisagreement {
		t.Errorf("with everything on %v of the accepted drafts are wrong, and %v without", rows["auto"].CheckedDisagreement, rows["confidence"].CheckedDisagreement)
	}
	if r := rows["verify 12/s"]; r.Identical != 1 || r.DraftTokenShare == 0 {
		t.Errorf("%v of the verified answers are the target's own, with %v of their tokens from the draft", r.Identical, r.DraftTokenShare)
	}
	if r := rows["lenient 16/s"]; r.CheckedDisagreement != 0 || r.Acceptance == 0 {
		t.Errorf("%v of the drafts that the target stood by are wrong", r.CheckedDisagreement)
	}
}

// TestTheGuardKeepsToTheTargetWhereDraftsLose: what is lost by exploring must be little.
func TestTheGuardKeepsToTheTargetWhereDraftsLose(t *testing.T) {
	for _, name := range []string{"cascade-long-prompt", "cascade-low-acceptance", "cascade-price-b"} {
		rows := baseline(t, name)
		alone, without, r := rows["target_only"], rows["confidence"], rows["auto"]
		if without.USDPerMTok < 1.1*alone.USDPerMTok {
			t.Errorf("%s: drafts cost %v, and the target alone %v: they do not lose", name, without.USDPerMTok, alone.USDPerMTok)
		}
		if r.USDPerMTok > 1.03*alone.USDPerMTok || r.TTFT95 > 1.03*alone.TTFT95 {
			t.Errorf("%s: %v $ and %v ms, the target alone %v and %v", name, r.USDPerMTok, r.TTFT95, alone.USDPerMTok, alone.TTFT95)
		}
	}
}

// checked is a small cascade; MODE and MORE vary.
const checked = `
about: x
duration: 30s
deadline: 2m
arrivals: {rate: 2}
prompts: [{name: chat, question: 100, max_tokens: 150, PROMPT}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1, divergence: 0.4}
target: {profile: h100-70b-fp8-tp2, count: 2, usd_per_hour: 13.76, TARGET restart: 10s}
settings: {cache.mode: "off", economy.guard: "off", MORE}
`

func check(t *testing.T, pairs ...string) loadtest.Row {
	t.Helper()
	text := replace(checked, pairs...)
	text = replace(text, "PROMPT", "temperature: 0", "TARGET", "", "MORE", `economy.explore_rate: "0.02"`)
	return row(t, scenario(t, text), 1)
}

func TestVerifiedAnswersAreTheTargetsOwn(t *testing.T) {
	r := check(t, "MORE", `speculation.mode: verify`)
	if r.Identical != 1 || r.DraftTokenShare == 0 || r.Errors > 0 {
		t.Errorf("%v identical, %v of the tokens drafted, %d lost", r.Identical, r.DraftTokenShare, r.Errors)
	}
}

// hopeless is an application with whose drafts the target does not agree; MODE varies.
const hopeless = `
about: x
duration: 30m
warmup: 20m
deadline: 2m
arrivals: {poisson: 2}
prompts: [{name: chat, system: {tokens: 120, variants: 1}, question: 100, output: 60}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 4, divergence: 1}
target: {profile: h100-70b-fp8-tp2, count: 1, usd_per_hour: 13.76}
settings: {cache.mode: "off", speculation.mode: MODE}
`

func TestAHopelessApplicationIsAsFastAsTheTargetAlone(t *testing.T) {
	r, alone := row(t, scenario(t, replace(hopeless, "MODE", "risk")), 1), row(t, scenario(t, replace(hopeless, "MODE", `"off"`)), 1)
	t.Logf("TTFT p50 %v ms, the target alone %v ms; %.3f are kept from their draft", r.TTFT50, alone.TTFT50, r.Guarded)
	if r.Guarded < .95 || r.TTFT50 > 1.03*alone.TTFT50 {
		t.Errorf("TTFT p50 %v ms, the target alone %v ms; %.3f are kept from their draft", r.TTFT50, alone.TTFT50, r.Guarded)
	}
}
