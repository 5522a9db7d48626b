// Package trial compares the targets of a route on live requests. It tells a [compare.Recorder] what each request took and
// cost. In the background, and at the lowest priority, it asks the target in force what it thinks of answers, and has a
// mirror answer some requests.
//
// Start at [Trials.New], once for each request of a route that compares targets. A trial never changes an answer and
// delays none.
package trial

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/background"
	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/strategy"
	"github.com/foregate/foregate/tiers/world"
)

const (
	// maxTrials bounds the trials that run in the background. Further ones are skipped.
	maxTrials = 16
	// maxTime is the time limit of the background work of one request.
	maxTime = 10 * time.Minute
	// patience is how long a trial waits for its turn to ask a pool.
	patience = time.Minute
)

// Metrics counts trials. All labels have a bounded set of values.
type Metrics interface {
	// CountTrial counts a comparison in the background by its kind, opinion or mirror, and its result: made, or why it was
	// skipped.
	CountTrial(route, kind, result string)
	// CountAudit adds the target tokens that were computed for opinions, and their cost in USD; 0 if prices are unknown.
	CountAudit(route string, tokens int, usd float64)
	// CountAuditPanic counts a recovered panic.
	CountAuditPanic()
}

// Options configure [Trials]. All are required.
type Options struct {
	World         world.World
	Recorder      compare.Recorder
	Metrics       Metrics
	Capabilities  func(pool string) *probe.Capabilities     // nil: unknown
	UnderPressure func(route, pool string, class int8) bool // whether a pool is about to shed requests of a priority class
}

// Trials makes trials and runs their background work. It is safe for concurrent use.
type Trials struct {
	Options
	tasks   *background.Tasks
	counted conversations // by pair
}

// New returns Trials. They record answers at once, and do nothing in the background before [Trials.Begin].
func New(o Options) *Trials {
	return &Trials{Options: o, tasks: background.New(background.Options{World: o.World, Max: maxTrials, Patience: patience, OnPanic: o.Metrics.CountAuditPanic})}
}

// Begin allows background work until ctx ends. Call [Trials.Wait] afterwards.
func (t *Trials) Begin(ctx context.Context) { t.tasks.Begin(ctx) }

// Wait waits for the end of all background work.
func (t *Trials) Wait() { t.tasks.Wait() }

// Setup says how the targets of a request's route are compared.
type Setup struct {
	Conversation uint64                // the number of the request's conversation, by which its target was chosen
	Pairs        []compare.Pair        // whose answers the request's one is
	Side         compare.Side          // of these pairs that it is of
	Diverted     bool                  // the candidate of these pairs was away, so the target in force answers
	Incumbent    inflight.Pool         // the target in force, which is asked for its opinion
	Prices       func() economy.Prices // with the target in force as target; nil: unknown
	Opinions     float64               // share of the counted requests whose answers it is asked about, 0 … 1
	Mirror       *Mirror               // nil: none
}

// Mirror is a target whose answers no client gets.
type Mirror struct {
	Pair   compare.Pair // with the mirror as candidate
	Pool   inflight.Pool
	Prices func() economy.Prices // with the mirror as target; nil: unknown
	Share  float64               // of the requests that are drawn; of a conversation it answers the first drawn one, 0 … 1
}

// Trial is the comparison by one request.
type Trial struct {
	trials  *Trials
	request *inflight.Request
	setup   Setup
	counts  bool // for the pairs
	asks    bool // the target in force is asked about the answer
	mirrors bool // the mirror answers as well
	retain  func() (released func())
	answer  answer
}

// New returns the trial of a request. Of a conversation one request counts for each pair: what the requests of a
// conversation have in common would else be taken for many independent trials. retain keeps the request's body valid until
// released is called; nil: not needed.
func (t *Trials) New(r *inflight.Request, s Setup, retain func() (released func())) *Trial {
	out := &Trial{trials: t, request: r, setup: s, retain: retain}
	out.counts = len(s.Pairs) > 0 && t.counted.isNew(s.Pairs[0], s.Conversation)
	draw := r.RandomFor(inflight.DrawTrial)
	out.asks = out.counts && !s.Diverted && r.Body.SinglePlain && draw < s.Opinions
	out.mirrors = s.Mirror != nil && draw < s.Mirror.Share && t.counted.isNew(s.Mirror.Pair, s.Conversation)
	return out
}

// Observer returns an observer of the answer that tells next as well; nil is none.
func (t *Trial) Observer(next strategy.Observer) strategy.Observer {
	if !t.asks && !t.mirrors {
		return next
	}
	t.answer.next = next
	return &t.answer
}

// Done is how the request ended.
type Done struct {
	Outcome *strategy.Outcome
	USD     float64 // of the answer; 0 if prices are unknown
	Alone   float64 // of the same answer by the target alone, likewise
	Total   time.Duration
	Err     error
	Left    bool // the client disconnected
}

// isWhole reports whether an answer came to its end.
func (d *Done) isWhole() bool { return d.Outcome.Finish != "" || d.Outcome.Tier != "" }

// answerOf returns the answer of a request at a price in USD.
func answerOf(d *Done, usd float64, stream bool) compare.Answer {
	a := compare.Answer{Total: d.Total, Tokens: d.Outcome.Accepted + d.Outcome.Target, USD: usd}
	if stream {
		a.FirstToken = d.Outcome.First
	}
	return a
}

// writerOf returns the tier that wrote the whole answer, "" if both have a part in it.
func writerOf(o *strategy.Outcome) plan.Tier {
	switch {
	case o.Tier == plan.Draft && o.Target == 0:
		return plan.Draft
	case o.Tier == plan.Target && o.Accepted == 0:
		return plan.Target
	}
	return ""
}
