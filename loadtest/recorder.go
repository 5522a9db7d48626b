package loadtest

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	different = 32      // names that are counted apart
	other     = "other" // the name of all that come after them
)

// Recorder gathers outcomes in room that does not grow with their number. It is
// safe for concurrent use.
//
// Latencies count from [Outcome.At], when a request should have been sent, so a
// sender that falls behind shows up as latency and is not left out.
type Recorder struct {
	warmup time.Duration

	mu   sync.Mutex
	t    tally
	ttft latency
	e2e  latency

	details    counts // what was not answered, by kind
	priorities map[string]*group
}

// NewRecorder makes a recorder that does not count what arrives before warmup.
func NewRecorder(warmup time.Duration) *Recorder {
	return &Recorder{
		warmup: warmup,
		ttft:   latency{digits: 3}, e2e: latency{digits: 3},
		details: counts{}, priorities: map[string]*group{},
	}
}

// tally is what is counted of all outcomes together.
type tally struct {
	Requests, Answered, Shed, Errors, Cached, Coalesced int

	Accepted, Rejected             int
	PromptTokens                   int // of answered requests
	DraftTokens, TargetTokens      int // of answers
	Delivered                      int // tokens of answers that ended after the warm-up, whenever they began
	Checked, Identical             int
	CheckedAccepts, WrongAccept    int // accepted from the draft, and checked
	WrongAnswers                   int // answers that the target would refuse, and checked
	SharedDrafts, WrongShared      int // answers that were drafts of another request, from the cache or shared, and checked
	Guarded, TargetChecked, Scored int // kept from the draft; drafts that the target was asked about; tokens for that

	Unverified, WrongUnverified eras // answers of the draft that the target was not asked about; of them those that it would have refused
}

// counts are numbers by name; there are at most 33 names.
type counts map[string]int

func (c counts) add(name string) {
	if name == "" {
		return
	}
	if _, ok := c[name]; !ok && len(c) >= different {
		name = other
	}
	c[name]++
}

// group is what came of the requests of one priority.
type group struct {
	Name                            string
	Requests, Answered, Shed, Error int
	ttft                            latency
	TTFT99                          float64 // ms; filled by summary
}

// Add counts an outcome, unless it arrived before the warm-up's end. A draft's
// verdict counts where there is an answer: of others a client hears none.
func (r *Recorder) Add(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.End == Answered && o.Done >= r.warmup {
		r.t.Delivered += o.DraftTokens + o.TargetTokens
	}
	if o.At < r.warmup {
		return
	}
	r.t.Requests++
	switch o.End {
	case Answered:
		r.answered(o)
	case Shed:
		r.t.Shed++
		r.details.add(described(o))
	default:
		r.t.Errors++
		r.details.add(described(o))
	}
	r.groupOf(o.Priority).add(o)
}

// answered counts what only answers have.
func (r *Recorder) answered(o Outcome) {
	r.t.Answered++
	switch {
	case o.Cached:
		r.t.Cached++
	case o.Coalesced:
		r.t.Coalesced++
	default:
		r.judged(o)
	}
	r.check(o)
	r.t.PromptTokens += o.PromptTokens
	r.t.DraftTokens += o.DraftTokens
	r.t.TargetTokens += o.TargetTokens
	r.e2e.add(o.Done - o.At)
	if o.First > 0 {
		r.ttft.add(o.First - o.At)
	}
}

// judged counts a verdict, which is told with every answer and given once: what the
// cache gives again was judged before.
func (r *Recorder) judged(o Outcome) {
	if o.Acceptance == "bypassed" && (o.Reason == "no_saving" || o.Reason == "low_agreement") {
		r.t.Guarded++
	}
	if o.TargetChecked {
		r.t.TargetChecked++
	}
	r.t.Scored += o.Scored
	switch o.Acceptance {
	case "accepted":
		r.t.Accepted++
	case "rejected":
		r.t.Rejected++
	}
}

// check counts how the answer compares with the target's.
func (r *Recorder) check(o Outcome) {
	if !o.Checked {
		return
	}
	r.t.Checked++
	if o.Identical {
		r.t.Identical++
	}
	if o.WrongAnswer {
		r.t.WrongAnswers++
	}
	r.unverified(o)
	switch {
	case o.Acceptance != "accepted":
		return
	case o.Cached || o.Coalesced:
		if r.t.SharedDrafts++; o.Wrong {
			r.t.WrongShared++
		}
		return
	}
	r.t.CheckedAccepts++
	if o.Wrong {
		r.t.WrongAccept++
	}
}

// unverified counts what was served on the draft's own word.
func (r *Recorder) unverified(o Outcome) {
	if !o.Unverified || o.Cached || o.Coalesced {
		return
	}
	r.t.Unverified.add(o.Drifted)
	if o.Wrong {
		r.t.WrongUnverified.add(o.Drifted)
	}
}

// described names an end that is not an answer.
func described(o Outcome) string {
	if o.Detail == "" {
		return cmp.Or(o.End, Failed)
	}
	return cmp.Or(o.End, Failed) + ": " + o.Detail
}

// groupOf finds a priority's group, or makes it; there are at most 33.
func (r *Recorder) groupOf(name string) *group {
	if g := r.priorities[name]; g != nil {
		return g
	}
	if len(r.priorities) >= different {
		name = other
	}
	if r.priorities[name] == nil {
		r.priorities[name] = &group{Name: name, ttft: latency{digits: 2}}
	}
	return r.priorities[name]
}

func (g *group) add(o Outcome) {
	g.Requests++
	switch o.End {
	case Answered:
		g.Answered++
		if o.First > 0 {
			g.ttft.add(o.First - o.At)
		}
	case Shed:
		g.Shed++
	default:
		g.Error++
	}
}

// summary is what a recorder holds, at one moment.
type summary struct {
	tally
	Warmup time.Duration

	TTFT, E2E  []float64 // ms: p50, p95, p99
	Details    []named   // what was not answered
	Priorities []group
}

// named is a name's number.
type named struct {
	Name string
	N    int
}

// summary reads everything at once. That of no recorder is empty.
func (r *Recorder) summary() summary {
	if r == nil {
		return summary{TTFT: make([]float64, 3), E2E: make([]float64, 3)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return summary{
		tally: r.t, Warmup: r.warmup,
		TTFT: r.ttft.at(0.5, 0.95, 0.99), E2E: r.e2e.at(0.5, 0.95, 0.99),
		Details: r.details.sorted(), Priorities: r.groups(),
	}
}

// sorted gives the largest first.
func (c counts) sorted() []named {
	out := make([]named, 0, len(c))
	for name, n := range c {
		out = append(out, named{name, n})
	}
	slices.SortFunc(out, func(a, b named) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// groups copies the groups.
func (r *Recorder) groups() []group {
	out := make([]group, 0, len(r.priorities))
	for _, g := range r.priorities {
		one := *g
		one.TTFT99, one.ttft = g.ttft.at(0.99)[0], latency{}
		out = append(out, one)
	}
	return out
}
