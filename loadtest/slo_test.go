package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestAnSLOIsReadOrRefused(t *testing.T) {
	s, err := ParseSLO("ttft_p99=1s, e2e_p50=30s,lost=0.01")
	if err != nil || s.TTFT[0.99] != time.Second || s.E2E[0.5] != 30*time.Second || s.Lost != 0.01 {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"": "want ttft_p50", "lost=0.1": "want a bound", "ttft_p99": "above 0", "ttft_p99=-1s": "above 0", "ttft_p90=1s": "ttft_p99",
		"tpot_p99=1s": "want ttft_p50", "lost=1": "below 1", "ttft_p99=1s,lost=-1": "below 1",
	} {
		if _, err := ParseSLO(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAnSLOIsDecidedWhenItCannotHoldAnyMore(t *testing.T) {
	s, err := ParseSLO("ttft_p99=1s,e2e_p50=10s,lost=0.01")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(first, done time.Duration) Outcome {
		return Outcome{At: time.Minute, First: time.Minute + first, Done: time.Minute + done, End: Answered}
	}
	for name, c := range map[string]struct {
		of   Outcome
		till int // how many it takes of 1000 requests
		want string
	}{
		"late first token": {answer(2*time.Second, 3*time.Second), 11, "ttft_p99"},
		"slow answers":     {answer(time.Second, 11*time.Second), 501, "e2e_p50"},
		"lost":             {Outcome{At: time.Minute, End: Shed}, 11, "lost"},
		"good":             {answer(time.Second, 10*time.Second), 0, ""},
		"before the start": {Outcome{At: time.Second, End: Shed}, 0, ""},
	} {
		v, n := s.Verdict(1000, time.Minute), 1
		for ; n <= 1000 && !v.Add(c.of); n++ {
		}
		if v.Failed != c.want || c.want != "" && n != c.till {
			t.Errorf("%s: %q after %d", name, v.Failed, n)
		}
	}
}
