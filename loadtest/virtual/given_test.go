package virtual

import (
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// traced is small with requests that are given, one a second.
func traced(t *testing.T) *loadtest.Scenario {
	t.Helper()
	s := scenario(t, small)
	s.Prompts[0].MaxTokens = 0
	for i := range 60 {
		s.Given = append(s.Given, loadtest.Given{At: time.Duration(i) * time.Second, Prompt: 40, Output: 20, Words: i})
	}
	return s
}

func TestARunOfATraceHasItsRequestsAndTokens(t *testing.T) {
	r := row(t, traced(t), 1)
	if r.Requests != 60 || r.Errors+r.Shed > 0 || r.TokensPerSecond*60 < 60*20*0.9 {
		t.Errorf("%+v", r)
	}
}

func TestARunEndsWhenItIsEnough(t *testing.T) {
	s, n := traced(t), 0
	s.Enough = func(loadtest.Outcome) bool { n++; return n == 10 }
	if row(t, s, 1); n < 10 || n > 30 {
		t.Errorf("it told %d outcomes, of which 10 were enough", n)
	}
}

func TestTheBestAcceptanceFallsWithTheDraft(t *testing.T) {
	s := traced(t)
	s.Audits, s.Cases[0].Oracle = 60, 0.1
	c := s.Cases[0]
	accepts := func(divergence float64) float64 {
		draft := *s.Cases[0].Draft
		draft.Divergence = divergence
		c.Draft = &draft
		a, err := BestAcceptance(s, &c, 1)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if good, bad := accepts(0.05), accepts(0.8); good < 0.9 || bad > good-0.3 {
		t.Errorf("%g of good drafts, %g of bad ones", good, bad)
	}
}
