package vllmsim

import (
	"testing"
	"time"
)

// The orders of magnitude that users of these machines report, and that KV sizes of the models give.
func TestProfilesStayWithinWhatIsReported(t *testing.T) {
	cases := []struct {
		profile, what string
		w             work
		low, high     time.Duration
	}{
		{"a10g-8b", "32 sequences of 1000 tokens", work{decoding: 32, kvRead: 32000}, 26 * time.Millisecond, 42 * time.Millisecond},
		{"a100-8b", "one sequence", work{decoding: 1, kvRead: 500}, 8 * time.Millisecond, 15 * time.Millisecond},
		{"h100-70b-tp4", "one sequence", work{decoding: 1, kvRead: 500}, 20 * time.Millisecond, 40 * time.Millisecond},
		{"h100-70b-tp4", "a full chunk", work{prefill: 8192, kvRead: 8192}, 400 * time.Millisecond, 1200 * time.Millisecond},
		{"h100-70b-fp8-tp2", "one sequence", work{decoding: 1, kvRead: 600}, 18300 * time.Microsecond, 18500 * time.Microsecond},
		{"h100-70b-fp8-tp2", "32 sequences of 600 tokens", work{decoding: 32, kvRead: 19200}, 19700 * time.Microsecond, 20100 * time.Microsecond},
		{"h100-70b-fp8-tp2", "128 sequences of 600 tokens", work{decoding: 128, kvRead: 76800}, 24600 * time.Microsecond, 25 * time.Millisecond},
		{"h100-8b", "one sequence", work{decoding: 1, kvRead: 500}, 6 * time.Millisecond, 15 * time.Millisecond},
		{"h100-8b", "a full chunk", work{prefill: 8192, kvRead: 8192}, 200 * time.Millisecond, 600 * time.Millisecond},
		{"a10g-13b", "one sequence", work{decoding: 1, kvRead: 500}, 15 * time.Millisecond, 30 * time.Millisecond},
	}
	for _, c := range cases {
		p, err := ProfileByName(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if d := p.stepTime(c.w); d < c.low || d > c.high {
			t.Errorf("%s, %s: %v, want %v to %v", c.profile, c.what, d, c.low, c.high)
		}
	}
}

// The rates of docs/science.md, Cost model: 11.2k tokens of prompts a second, and with 64 sequences 2,966 of answers.
func TestAProfilesRatesAreThoseOfAUsualLoad(t *testing.T) {
	p := profiles["h100-70b-fp8-tp2"]
	prefill, decode := p.Rates(UsualSequences)
	if prefill < 11100 || prefill > 11300 || decode < 2900 || decode > 3050 {
		t.Errorf("%v and %v tokens a second", prefill, decode)
	}
}
