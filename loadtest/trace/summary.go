package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// Summary is what was read of a trace.
type Summary struct {
	Format     string    `json:"format"`
	Requests   int       `json:"requests"`
	Hours      float64   `json:"hours"`
	PerSecond  float64   `json:"requests_per_s"`
	ByHour     []float64 `json:"requests_per_s_by_hour"`
	ByMinute   []float64 `json:"requests_per_s_by_minute,omitempty"` // of a trace of two hours at most
	Peak10s    float64   `json:"highest_requests_per_s_in_10s"`
	Prompt50   int       `json:"prompt_p50"`
	Prompt99   int       `json:"prompt_p99"`
	Output50   int       `json:"output_p50"`
	Output99   int       `json:"output_p99"`
	Repeats    float64   `json:"repeats"` // share of requests
	Shared     float64   `json:"shared"`  // share of the prompts' tokens that an earlier prompt with the same beginning has
	Unanswered int       `json:"unanswered,omitempty"`
	Unreadable int       `json:"unreadable_lines,omitempty"`
	Examples   []string  `json:"unreadable_examples,omitempty"`
	Assumed    []string  `json:"assumed,omitempty"`
}

// Summary sums a trace up.
func (t *Trace) Summary() Summary {
	s := Summary{
		Format: t.Format, Requests: len(t.Requests), Hours: t.Length().Hours(), Unanswered: t.Unanswered,
		PerSecond: float64(len(t.Requests)) / t.Length().Seconds(), Unreadable: t.Unreadable, Examples: t.Examples, Assumed: t.Assumed,
	}
	s.ByHour = ratesBy(t.Requests, time.Hour)
	if s.Hours <= 2 {
		s.ByMinute = ratesBy(t.Requests, time.Minute)
	}
	s.Peak10s = slices.Max(ratesBy(t.Requests, 10*time.Second))
	var prompts, outputs []int
	tokens, shared, repeats := 0, 0, 0
	words, prefixes := map[int]bool{}, map[int]bool{}
	for _, g := range t.Requests {
		prompts, outputs, tokens = append(prompts, g.Prompt), append(outputs, g.Output), tokens+g.Prompt
		if words[g.Words] {
			repeats++
		}
		if prefixes[g.Prefix] {
			shared += g.Shared
		}
		words[g.Words], prefixes[g.Prefix] = true, true
	}
	s.Repeats, s.Shared = float64(repeats)/float64(len(t.Requests)), float64(shared)/float64(tokens)
	s.Prompt50, s.Prompt99 = Quantile(prompts, 0.5), Quantile(prompts, 0.99)
	s.Output50, s.Output99 = Quantile(outputs, 0.5), Quantile(outputs, 0.99)
	return s
}

// ratesBy are the requests a second in each part of a trace; the last part is as long as the trace is.
func ratesBy(requests []loadtest.Given, part time.Duration) []float64 {
	end := requests[len(requests)-1].At
	out := make([]float64, end/part+1)
	for _, g := range requests {
		out[g.At/part]++
	}
	for i := range out {
		seconds := part.Seconds()
		if rest := (end - time.Duration(i)*part).Seconds(); rest < seconds && i > 0 && rest < seconds/2 {
			out = out[:i] // too short to have a rate
			break
		} else if rest < seconds {
			seconds = rest
		}
		out[i] /= seconds
	}
	return out
}

// Quantile is the value that a share q of the values is at most.
func Quantile(values []int, q float64) int {
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

// Length is how long the trace lasts.
func (s *Summary) Length() time.Duration { return time.Duration(3600*s.Hours) * time.Second }

// Text words a summary for people.
func (s *Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Read %s: %d requests in %s, %.2f a second; at most %.1f a second in 10 seconds.\n", s.Format, s.Requests, s.Length(), s.PerSecond, s.Peak10s)
	if len(s.ByHour) > 1 {
		fmt.Fprintf(&b, "Requests a second by hour, of two days at most: %.1f\n", s.ByHour[:min(48, len(s.ByHour))])
	}
	fmt.Fprintf(&b, "Tokens, P50 and P99: prompts %d and %d, answers %d and %d. Repeats: %.0f %% of the requests. Shared prefixes: %.0f %% of the prompts' tokens.\n",
		s.Prompt50, s.Prompt99, s.Output50, s.Output99, 100*s.Repeats, 100*s.Shared)
	if s.Unanswered > 0 {
		fmt.Fprintf(&b, "%d requests have no answer, and are left out.\n", s.Unanswered)
	}
	if s.Unreadable > 0 {
		fmt.Fprintf(&b, "%d lines could not be read:\n  %s\n", s.Unreadable, strings.Join(s.Examples, "\n  "))
	}
	for _, a := range s.Assumed {
		fmt.Fprintf(&b, "Assumed: %s\n", a)
	}
	return b.String()
}
