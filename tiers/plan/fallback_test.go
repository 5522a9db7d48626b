package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/openai"
)

func TestAFallbackIsChosenOnlyWhenNothingSpeaksAgainstIt(t *testing.T) {
	both, down := []FailureCause{CauseUnavailable, CauseShed}, []FailureCause{CauseUnavailable}
	one := func(c ...Candidate) []Candidate { return c }
	free := Candidate{When: both, Allowed: true}
	good := FallbackFacts{Cause: CauseUnavailable, External: true, Candidates: one(free)}
	with := func(change func(f *FallbackFacts)) FallbackFacts {
		f := good
		f.Candidates = append([]Candidate(nil), good.Candidates...)
		change(&f)
		return f
	}
	for _, c := range []struct {
		name  string
		facts FallbackFacts
		index int
		why   string
	}{
		{"nothing against it", good, 0, ""},
		{"shed", with(func(f *FallbackFacts) { f.Cause = CauseShed }), 0, ""},
		{"the request's own fault", with(func(f *FallbackFacts) { f.Cause = CauseNone }), -1, StayNoFallback},
		{"no fallback", with(func(f *FallbackFacts) { f.Candidates = nil }), -1, StayNoFallback},
		{"the tenant may not leave", with(func(f *FallbackFacts) { f.External = false }), -1, StayTenant},
		{"a byte was sent", with(func(f *FallbackFacts) { f.Sent = true }), -1, StaySent},
		{"the client has left", with(func(f *FallbackFacts) { f.Gone = true }), -1, StayGone},
		{"a tier is demanded", with(func(f *FallbackFacts) { f.Demanded = true }), -1, StayDemanded},
		{"members of vLLM", with(func(f *FallbackFacts) { f.Unfit = true }), -1, StayUnfit},
		{"not for this cause", with(func(f *FallbackFacts) { f.Cause, f.Candidates = CauseShed, one(Candidate{When: down, Allowed: true}) }), -1, StayNoFallback},
		{"not this model", with(func(f *FallbackFacts) { f.Candidates[0].Allowed = false }), -1, StayTenant},
		{"no dollars", with(func(f *FallbackFacts) { f.Candidates[0].State = FallbackSpent }), -1, StaySpent},
		{"it has failed", with(func(f *FallbackFacts) { f.Candidates[0].State = FallbackFailed }), -1, StayFailed},
		{"the first has no dollars", with(func(f *FallbackFacts) { f.Candidates = one(Candidate{both, true, FallbackSpent}, free) }), 1, ""},
		{"the first has failed", with(func(f *FallbackFacts) { f.Candidates = one(Candidate{both, true, FallbackFailed}, free) }), 1, ""},
		{"the first is for another cause", with(func(f *FallbackFacts) {
			f.Cause, f.Candidates = CauseShed, one(Candidate{When: down, Allowed: true}, free)
		}), 1, ""},
		{"the order is the route's", with(func(f *FallbackFacts) { f.Candidates = one(free, free) }), 0, ""},
		{"spent, then failed", with(func(f *FallbackFacts) {
			f.Candidates = one(Candidate{both, true, FallbackSpent}, Candidate{both, true, FallbackFailed}, Candidate{both, false, FallbackUntried})
		}), -1, StayFailed},
	} {
		if i, why := ChooseFallback(c.facts); i != c.index || why != c.why {
			t.Errorf("%s: %d %q, want %d %q", c.name, i, why, c.index, c.why)
		}
	}
}

// scanned parses a request with generous limits.
func scanned(t *testing.T, kind openai.Kind, body string) *openai.Request {
	t.Helper()
	r, err := (&openai.Request{Kind: kind}).Rescan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyRequestsThatAnyServerUnderstandsFitOutside(t *testing.T) {
	const messages = `"model":"m","messages":[{"role":"user","content":"hi"}]`
	for body, want := range map[string]bool{
		messages: true,
		messages + `,"temperature":0.5,"tools":[{"type":"function","function":{"name":"f"}}],"stream":true,"stream_options":{"include_usage":true}`: true,
		messages + `,"priority":3,"cache_salt":"x"`:            true, // never forwarded to anybody
		messages + `,"top_k":5`:                                false,
		messages + `,"min_p":0.1`:                              false,
		messages + `,"logit_bias":{"17":1}`:                    false,
		messages + `,"chat_template_kwargs":{"thinking":true}`: false,
	} {
		if got := FitsOutside(scanned(t, openai.Chat, "{"+body+"}")); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
	for body, want := range map[string]bool{`"prompt":"hi"`: true, `"prompt":["hi","ho"]`: true, `"prompt":[1,2]`: false, `"prompt":[[1,2]]`: false} {
		if got := FitsOutside(scanned(t, openai.Completion, `{"model":"m",`+body+"}")); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}
