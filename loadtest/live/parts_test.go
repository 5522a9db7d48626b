package live

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDurationsAreDividedByTheTimeScale(t *testing.T) {
	in := map[string]string{
		"speculation.holdback_ms": "400", "timeout.stream_idle@lab": "10s", "breaker.open_duration": "1s", "shed.low": "0.5", "timeout.total": "soon",
		"timeout.min_tokens_per_s@lab": "1.5", "timeout.max_total": "1h",
	}
	want := map[string]string{
		"speculation.holdback_ms": "20", "timeout.stream_idle@lab": "500ms", "timeout.stream_idle": "1s", "breaker.open_duration": "100ms", "shed.low": "0.5", "timeout.total": "soon",
		"scrape.interval": "25ms", "timeout.draft_first_token": "250ms", "timeout.target_first_token": "1.5s",
		"shed.max_wait_low": "500ms", "shed.max_wait_normal": "750ms", "shed.max_wait_high": "1.5s", "cache.ttl": "3m0s",
		"timeout.min_tokens_per_s": "100", "timeout.min_tokens_per_s@lab": "30", "timeout.max_total": "3m0s",
	}
	if d := cmp.Diff(want, scaled(in, 20)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(in, scaled(in, 1)); d != "" {
		t.Error(d)
	}
	if got := scaled(nil, 1000)["speculation.holdback_ms"]; got != "1" {
		t.Errorf("hold-back %s", got)
	}
}

// The gateway's own reference holds the same defaults and bounds.
func TestTheScaledSettingsAreThoseOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^`]*)` \\| (?:duration|milliseconds), ([^ ]+) …")
	seen := 0
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		sp, ok := spans[m[1]]
		if !ok {
			continue // another kind of time, such as how long a client is waited for
		}
		seen++
		usual, ok := readSpan(m[1], m[2])
		least, _ := readSpan(m[1], m[3])
		if !ok || usual != sp.usual || least != sp.minimum && !millis(m[1]) {
			t.Errorf("%s is %v, at least %v; the reference says %s and %s", m[1], sp.usual, sp.minimum, m[2], m[3])
		}
	}
	if seen != len(spans) {
		t.Errorf("%d of %d settings are in the reference", seen, len(spans))
	}
}
