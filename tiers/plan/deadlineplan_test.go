package plan

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/openai"
)

func TestADeadlineFollowsWhatTheAnswerMayNeed(t *testing.T) {
	follows := Timeouts{TargetFirstToken: 30 * time.Second, Total: 10 * time.Minute, MaxTotal: time.Hour, MinTokensPerSecond: 10}
	off, below, unset := follows, follows, follows
	off.MaxTotal, below.MaxTotal, unset.MinTokensPerSecond = 0, time.Minute, 0
	for name, tc := range map[string]struct {
		t              Timeouts
		prompt, answer int
		want           time.Duration
	}{
		"a short answer":             {follows, 100, 256, 10 * time.Minute},
		"the longest within Total":   {follows, 100, 5100, 10 * time.Minute},
		"a token more":               {follows, 100, 5101, 10*time.Minute + 100*time.Millisecond},
		"a long answer":              {follows, 4000, 16000, 1600*time.Second + 30*time.Second + time.Minute},
		"and a long prompt":          {follows, 32000, 16000, 1600*time.Second + 240*time.Second + time.Minute},
		"longer than MaxTotal":       {follows, 100, 100000, time.Hour},
		"no limit":                   {follows, 100, -1, time.Hour},
		"no number that overflows":   {follows, math.MaxInt32, math.MaxInt, time.Hour},
		"no answer":                  {follows, 100, 0, 10 * time.Minute},
		"off":                        {off, 100, 100000, 10 * time.Minute},
		"off, no limit":              {off, 100, -1, 10 * time.Minute},
		"below Total":                {below, 100, -1, 10 * time.Minute},
		"5 tokens a second by usual": {unset, 100, 5000, 1000*time.Second + 90*time.Second},
	} {
		if got := tc.t.Deadline(tc.prompt, tc.answer); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestAnAnswerInOnePieceIsWaitedForAtTheSlowestRate(t *testing.T) {
	to := Timeouts{DraftFirstToken: time.Second, TargetFirstToken: 30 * time.Second, Total: 10 * time.Minute, MaxTotal: time.Hour, MinTokensPerSecond: 2}
	for _, tc := range []struct {
		max  int
		want time.Duration
	}{
		{100, 80 * time.Second}, {3000, 1530 * time.Second}, {20000, 0}, {-1, 0},
	} {
		if got := to.DirectFirstByte(Target, &openai.Request{Kind: openai.Chat, MaxTokens: tc.max}); got != tc.want {
			t.Errorf("max_tokens %d: %v, want %v", tc.max, got, tc.want)
		}
	}
}
