// Package trace reads what clients asked of other gateways and engines, as a load for the lab. Start at [Read]; [Describe] makes
// a load without a file.
package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// Trace is a load to plan for.
type Trace struct {
	Format   string
	Requests []loadtest.Given // by time, from 0 on
	start    time.Time        // of the first; zero is unknown

	Unreadable  int      // lines
	Examples    []string // of these, the first three
	Unanswered  int      // requests without an answer, which are left out
	Assumed     []string // sentences
	TellsWords  bool     // repeats are known
	TellsPrefix bool     // shared prefixes are known
}

// MinRequests is the smallest trace: a P99 of fewer is that of a handful.
const MinRequests = 200

// Load describes a load without a trace, and what a trace does not tell. Zero values are not given.
type Load struct {
	Rate           float64 // requests a second, Poisson
	Prompt, Output int     // tokens, the medians
	Repeats        float64 // share of requests that repeat an earlier one, 0 … 0.95
	Shared         int     // tokens that all prompts begin with
	For            time.Duration
}

// Validate reports what makes no sense.
func (l *Load) Validate() error {
	switch {
	case l.Rate < 0 || l.Rate > 1000 || math.IsNaN(l.Rate):
		return fmt.Errorf("--rate %g: want requests a second, up to 1000", l.Rate)
	case l.Prompt < 0 || l.Prompt > 100_000 || l.Output < 0 || l.Output > 100_000:
		return fmt.Errorf("--prompt %d --output %d: want tokens, 1 to 100000", l.Prompt, l.Output)
	case !(l.Repeats >= 0 && l.Repeats <= 0.95):
		return fmt.Errorf("--repeats %g: want a share, 0 to 0.95", l.Repeats)
	case l.Shared < 0 || l.Shared > 100_000:
		return fmt.Errorf("--shared-prefix %d: want tokens, 0 to 100000", l.Shared)
	case l.For != 0 && (l.For < time.Minute || l.For > 24*time.Hour):
		return fmt.Errorf("--for %s: want 1m to 24h", l.For)
	}
	return nil
}

// spreadOfLengths is P95 ÷ P50 of the lengths of a load that is described: a usual chat's are about so.
const spreadOfLengths = 3

// Describe makes the trace of a load that is described.
func Describe(l Load) (*Trace, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if l.Rate == 0 || l.Prompt == 0 || l.Output == 0 {
		return nil, fmt.Errorf("want a trace, or a load: --rate, --prompt and --output")
	}
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // the same load each time
	length := func(median int) int {
		return int(min(max(1, math.Round(float64(median)*math.Exp(random.NormFloat64()*math.Log(spreadOfLengths)/1.645))), 100_000))
	}
	t := &Trace{Format: "a load that is described", Assumed: []string{
		fmt.Sprintf("Arrivals are independent of each other (Poisson), and lengths lognormal with a P95 of %d times the median.", spreadOfLengths),
	}}
	length64 := cmp.Or(l.For, time.Hour).Seconds()
	for at := random.ExpFloat64() / l.Rate; at < length64; at += random.ExpFloat64() / l.Rate {
		t.Requests = append(t.Requests, loadtest.Given{At: time.Duration(at * 1e9), Prompt: length(l.Prompt) + l.Shared, Output: length(l.Output)})
	}
	return t, t.complete(l)
}

// complete checks a trace, and adds what it does not tell.
func (t *Trace) complete(l Load) error {
	if len(t.Requests) < MinRequests {
		text := fmt.Sprintf("%d requests are too few for a P99: want %d or more", len(t.Requests), MinRequests)
		if l.Rate > 0 {
			text += fmt.Sprintf(" (--for %.0fs)", math.Ceil(1.2*MinRequests/l.Rate))
		}
		if t.Unreadable > 0 {
			text += fmt.Sprintf("; %d lines could not be read, the first: %s", t.Unreadable, strings.Join(t.Examples, "; "))
		}
		return fmt.Errorf("%s", text)
	}
	slices.SortStableFunc(t.Requests, func(a, b loadtest.Given) int { return cmp.Compare(a.At, b.At) })
	first := t.Requests[0].At
	for i := range t.Requests {
		t.Requests[i].At -= first
	}
	if l.Rate == 0 && t.Length() < time.Minute {
		return fmt.Errorf("the trace lasts %s: want a minute or more", t.Length().Round(time.Millisecond))
	}
	t.spreadSeconds()
	t.repeat(l.Repeats)
	t.share(l.Shared)
	return nil
}

// Length is the time from the first request to the last.
func (t *Trace) Length() time.Duration { return t.Requests[len(t.Requests)-1].At }

// spreadSeconds spreads the requests of each second over it, if the trace has whole seconds.
func (t *Trace) spreadSeconds() {
	for _, g := range t.Requests {
		if g.At%time.Second != 0 {
			return
		}
	}
	for i := 0; i < len(t.Requests); {
		n := i + 1
		for n < len(t.Requests) && t.Requests[n].At == t.Requests[i].At {
			n++
		}
		for k := i; k < n; k++ {
			t.Requests[k].At += time.Duration(k-i) * time.Second / time.Duration(n-i)
		}
		i = n
	}
	t.Assumed = append(t.Assumed, "Times are whole seconds; the requests of a second are spread over it.")
}

// repeat makes a share of the requests repeat earlier ones, where the trace does not tell.
func (t *Trace) repeat(share float64) {
	if t.TellsWords && share == 0 {
		return
	}
	random := rand.New(rand.NewPCG(2, 0)) //nolint:gosec // the same load each time
	for i := range t.Requests {
		g := &t.Requests[i]
		g.Words = i
		if i == 0 || random.Float64() >= share {
			continue
		}
		of := t.Requests[max(0, i-1-int(float64(i)*random.Float64()*random.Float64()))] // recent ones more often
		g.Words, g.Prompt, g.Output, g.Prefix, g.Shared = of.Words, of.Prompt, of.Output, of.Prefix, of.Shared
	}
	if share == 0 {
		t.Assumed = append(t.Assumed, "No request repeats another word for word: the trace does not tell (--repeats).")
	} else {
		t.Assumed = append(t.Assumed, fmt.Sprintf("%.0f %% of the requests repeat an earlier one (--repeats).", 100*share))
	}
}

// share makes all prompts begin alike, where the trace does not tell.
func (t *Trace) share(tokens int) {
	if t.TellsPrefix && tokens == 0 {
		return
	}
	for i := range t.Requests {
		g := &t.Requests[i]
		g.Prefix, g.Shared = 0, min(tokens, g.Prompt-1)
	}
	if tokens == 0 {
		t.Assumed = append(t.Assumed, "No prompts begin alike: the trace does not tell (--shared-prefix).")
	} else {
		t.Assumed = append(t.Assumed, fmt.Sprintf("All prompts begin with the same %d tokens (--shared-prefix).", tokens))
	}
}

// Busiest returns the stretch of a trace with the most requests a second that has at most n of them, and how long it is.
func (t *Trace) Busiest(n int) []loadtest.Given {
	if len(t.Requests) <= n {
		return t.Requests
	}
	best := 0
	for i := 0; i+n <= len(t.Requests); i++ {
		if t.Requests[i+n-1].At-t.Requests[i].At < t.Requests[best+n-1].At-t.Requests[best].At {
			best = i
		}
	}
	out := slices.Clone(t.Requests[best : best+n])
	for i, first := 0, out[0].At; i < n; i++ {
		out[i].At -= first
	}
	return out
}

// shuffleWithin is how far apart requests may be that change places in [Another].
const shuffleWithin = 5 * time.Minute

// Another is another trace like one: requests come at the same times, but what they ask has changed places within five minutes.
// Seed 1 is the trace itself.
func Another(of []loadtest.Given, seed uint64) []loadtest.Given {
	out := slices.Clone(of)
	if seed == 1 {
		return out
	}
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // the same for each seed
	for from := 0; from < len(out); {
		to := from
		for to < len(out) && out[to].At-out[from].At < shuffleWithin {
			to++
		}
		part := out[from:to]
		random.Shuffle(len(part), func(i, j int) {
			part[i], part[j] = part[j], part[i]
			part[i].At, part[j].At = part[j].At, part[i].At
		})
		from = to
	}
	return out
}
