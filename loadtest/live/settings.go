package live

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

// span is a setting of the gateway that is a duration: what it is when nobody
// sets it, and the least that the gateway takes.
type span struct{ usual, minimum time.Duration }

// spans are those that a run divides by its time scale. docs/reference.md has the
// same numbers.
var spans = map[string]span{
	"speculation.holdback_ms":    {1200 * time.Millisecond, time.Millisecond},
	"scrape.interval":            {500 * time.Millisecond, 20 * time.Millisecond},
	"breaker.open_duration":      {10 * time.Second, 100 * time.Millisecond},
	"shed.max_wait_low":          {10 * time.Second, 0},
	"shed.max_wait_normal":       {15 * time.Second, 0},
	"shed.max_wait_high":         {30 * time.Second, 0},
	"cache.ttl":                  {time.Hour, time.Second},
	"timeout.draft_first_token":  {5 * time.Second, 10 * time.Millisecond},
	"timeout.target_first_token": {30 * time.Second, 10 * time.Millisecond},
	"timeout.stream_idle":        {20 * time.Second, 10 * time.Millisecond},
	"timeout.total":              {600 * time.Second, 10 * time.Millisecond},
	"timeout.max_total":          {0, 0},
}

// minRate is the setting that a run multiplies by its time scale, what it is when nobody sets it, and the
// most that the gateway takes.
const (
	minRate      = "timeout.min_tokens_per_s"
	usualMinRate = 5
	maxMinRate   = 10000
)

// scaled are a case's settings as a gateway needs them whose backends run scale
// times faster. What cannot be read is left for the gateway to refuse.
func scaled(settings map[string]string, scale float64) map[string]string {
	out := maps.Clone(settings)
	if scale == 1 {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	for name, sp := range spans {
		if _, ok := out[name]; !ok {
			out[name] = spell(name, sp.usual)
		}
	}
	if _, ok := out[minRate]; !ok {
		out[minRate] = strconv.Itoa(usualMinRate)
	}
	for field, value := range out {
		name, _, _ := strings.Cut(field, "@")
		if f, err := strconv.ParseFloat(value, 64); name == minRate && err == nil {
			out[field] = strconv.FormatFloat(min(f*scale, maxMinRate), 'f', -1, 64)
			continue
		}
		sp, ok := spans[name]
		if !ok {
			continue
		}
		if d, ok := readSpan(name, value); ok && d > 0 {
			out[field] = spell(name, max(sp.minimum, time.Duration(float64(d)/scale)))
		}
	}
	return out
}

// millis reports whether a setting is written as milliseconds.
func millis(name string) bool { return strings.HasSuffix(name, "_ms") }

func readSpan(name, value string) (time.Duration, bool) {
	if millis(name) {
		n, err := strconv.Atoi(value)
		return time.Duration(n) * time.Millisecond, err == nil
	}
	d, err := time.ParseDuration(value)
	return d, err == nil
}

func spell(name string, d time.Duration) string {
	if millis(name) {
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10)
	}
	return d.Round(time.Millisecond).String()
}
