package tiers

import (
	"testing"

	"github.com/foregate/foregate/tiers/openai"
)

func TestATextThatNobodyCountedIsNeverTakenForMoreTokensThanItHas(t *testing.T) {
	for _, tc := range []struct {
		stop       []string
		text, want int
	}{
		{nil, 33, 6}, {nil, 32, 5}, {nil, 30, 3}, {nil, 29, 2}, {nil, 9, 0}, {nil, 0, 0},
		{[]string{"ab", "abcd"}, 33, 3}, {[]string{"abcd"}, 20, 0}, // the engine may be three bytes behind, of a token each
	} {
		caller := caller{Request: &Request{Arrival: Arrival{Body: &openai.Request{Stop: tc.stop}}}}
		s := streamRelay{relay: &relay{answer: &answer{caller: caller}}, ends: []int{10, 20, 30, 31, 32, 33}}
		if got := s.minTokens(tc.text); got != tc.want {
			t.Errorf("stop %q, %d bytes: %d tokens, want %d", tc.stop, tc.text, got, tc.want)
		}
	}
}
