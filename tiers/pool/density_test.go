package pool

import (
	"math"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
)

func TestWhatWasRememberedByTheRuleOfThumbIsRescaled(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	parts := prefix.Head{Tenant: "t", First: []byte("x")}.Parts(8000)
	l := pick(t, b.Pool, Demand{PromptBytes: 8000, Parts: parts})
	if got := b.first().cache.Placed(); got != 2001 {
		t.Fatalf("placed %v", got)
	}
	l.SetPromptTokens(4000)
	if got := b.first().cache.Placed(); math.Abs(got-4002) > 1e-6 {
		t.Errorf("placed %v after it was counted", got)
	}
	l.Done(1)
	// The next one is estimated by what was learned, and found warm.
	n := pick(t, b.Pool, Demand{PromptBytes: 8000, Parts: parts})
	if n.totals.prompt != 4001 || n.totals.queued > 1 {
		t.Errorf("held %d, to be computed %d", n.totals.prompt, n.totals.queued)
	}
	n.SetPromptTokens(4100)
	if got := b.first().cache.Placed(); math.Abs(got-4002) > 2 {
		t.Errorf("the second sample rescaled: %v", got)
	}
	n.Done(1)
}

func TestCountedPutsRightWhatIsHeldAndQueued(t *testing.T) {
	for name, c := range map[string]struct {
		counted     int
		first       bool // the first token came before
		held, queue int
	}{
		"longer":                      {1500, false, 1500, 1500},
		"shorter":                     {400, false, 400, 400},
		"longer, after first token":   {1500, true, 1500, 0},
		"shorter, after first token":  {400, true, 400, 0},
		"nothing is no count":         {0, false, 1000, 1000},
		"less than nothing is no one": {-3, false, 1000, 1000},
	} {
		b := newBench(t, Options{Backends: []string{"http://a"}})
		other := pick(t, b.Pool, Demand{PromptTokens: 10, OutputTokens: 20})
		l := pick(t, b.Pool, Demand{PromptTokens: 1000, OutputTokens: 100})
		if c.first {
			l.FirstToken()
		}
		l.SetPromptTokens(c.counted)
		other.Done(0)
		for _, a := range []totals{b.first().account.all, b.first().account.recent} {
			if a.requests != 1 || a.queued != c.queue || a.prompt != c.held {
				t.Errorf("%s: %+v, want %+v", name, a, c)
			}
		}
		l.Done(0)
		l.SetPromptTokens(77)
		if a := &b.first().account; a.all != (totals{}) || a.recent != (totals{}) {
			t.Errorf("%s: left behind %+v, %+v", name, a.all, a.recent)
		}
	}
}
