package planner

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/trace"
)

// answered is how long a user of the day waits for an answer, about, before the pause until the next turn.
const answered = 4 * time.Second

// day is the second day of scenario day as a trace: what its conversations ask, at fixed times. Prompts share what conversations
// begin with; that a turn repeats the one before it is left out.
func day(t testing.TB) *trace.Trace {
	t.Helper()
	s, err := loadtest.Named("day")
	if err != nil {
		t.Fatal(err)
	}
	w, err := loadtest.NewWorkload(s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	out := &trace.Trace{Format: "scenario day", TellsWords: true, TellsPrefix: true}
	asked, begun := numbers{}, numbers{}
	for i := 0; ; i++ {
		at, ok := w.Start(i)
		if !ok {
			break
		}
		for c := w.Session(i); ; {
			r, prompt := c.Request(), 0
			text := r.Tenant
			for _, m := range r.Messages {
				prompt += len(strings.Fields(m.Content))
				text += "\x00" + m.Content
			}
			if at >= s.Warmup && at < s.Duration {
				begin := r.Messages[0].Content
				out.Requests = append(out.Requests, loadtest.Given{
					At: at - s.Warmup, Prompt: prompt, Output: r.MaxTokens, Words: asked.of(text), Prefix: begun.of(begin), Shared: len(strings.Fields(begin)),
				})
			}
			think, more := c.Answered(strings.Repeat("word ", r.MaxTokens))
			if !more {
				break
			}
			at += answered + think
		}
	}
	slices.SortStableFunc(out.Requests, func(a, b loadtest.Given) int { return cmp.Compare(a.At, b.At) })
	return out
}

// numbers number texts.
type numbers map[string]int

func (n numbers) of(text string) int {
	if _, ok := n[text]; !ok {
		n[text] = len(n) + 1
	}
	return n[text]
}

// The fleet that is found for a day holds in nine of ten other runs; with a server fewer of either pool it does not.
func TestTheFleetForADayHoldsWithOtherSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const others = 10
	o := Options{
		Trace: day(t), SLO: *slo(t, "ttft_p99=2s,e2e_p99=30s"), Market: market(t, "llama-3.1-70b", "llama-3.1-8b"),
		Acceptance: []float64{0.6}, MaxDisagreement: 0.1, Growth: 1, Seeds: 3, Workers: 2, Progress: func(text string) { t.Log(text) },
	}
	a, err := Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(a.Text())
	p := &planner{Options: o, lab: &lab{market: &o.Market, slo: &o.SLO, requests: o.Trace.Busiest(maxSimulated), growth: 1, maxDisagreement: 0.1, evidence: map[float64]*evidence{}}}
	holds := func(c Candidate) (n int) {
		for seed := uint64(11); seed < 11+others; seed++ {
			f := Fleet{Candidate: c}
			if err := p.evaluate(t.Context(), &f, seed); err != nil {
				t.Fatal(err)
			}
			if f.Fails == "" {
				n++
			}
		}
		t.Logf("%s holds in %d of %d other runs", c, n, others)
		return n
	}
	best := a.Fleets[0].Candidate
	if n := holds(best); n < others*9/10 {
		t.Errorf("%s holds in %d of %d other runs", best, n, others)
	}
	smaller := []Candidate{best}
	smaller[0].Target.Count--
	if best.Draft.Count > 0 {
		fewer := best
		fewer.Draft.Count--
		smaller = append(smaller, fewer)
	}
	for _, c := range smaller {
		if c.Target.Count == 0 || best.Draft.Count > 0 && c.Draft.Count == 0 {
			continue // that is another kind of fleet
		}
		if n := holds(c); n > others/2 {
			t.Errorf("%s, a server fewer, holds in %d of %d other runs", c, n, others)
		}
	}
}
