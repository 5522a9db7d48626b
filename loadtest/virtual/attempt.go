package virtual

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/scoring"
)

// failure is why an attempt gave nothing more.
type failure struct {
	status  int  // HTTP status, 0 when there was none
	refused bool // no connection
	lost    bool // under way when the engine died
	shed    bool // the gateway turned it away
	detail  string
}

// retryable follows the gateway: everything but a client error is tried elsewhere.
func (f failure) retryable() bool {
	return f.status == 0 && !f.shed || f.status >= 500 || f.status == 429
}

// call is what a request asks of one tier, over as many attempts as it takes.
type call struct {
	request  *request
	tier     *tier
	demand   pool.Demand
	prompt   []int32
	limit    int // tokens of the answer; 0: the context's end
	stream   bool
	patience time.Duration // for the first byte; 0 is without end
	attempts int           // at most
	now      bool          // it does not wait for room
	must     bool          // its answer has begun
	score    bool          // it asks what the engine thinks of the prompt
	before   func() bool   // asked when it has a place: whether it is still wanted; nil is yes

	scoreFrom int                   // where that begins, for engines that read their cache before it; 0 is all of it
	left      func(scoring.Outcome) // tells what came of a score
	onToken   func(a *attempt, id int32, done bool)
	onFail    func(f failure, began bool)
	onRetry   func() // forgets what a failed attempt gave; may be nil

	tried   int
	current *attempt
	waiter  *admission.Waiter
	waited  time.Duration
}

// attempt is one call to one backend, and the source of its tokens.
type attempt struct {
	call    *call
	backend *backend
	lease   *pool.Lease
	seq     vllmsim.Seq
	writer  *vllmsim.Writer
	number  int // of the run, for an order that does not change
	tokens  int
	over    bool
}

// Next makes the next token; a score has one that nobody reads.
func (a *attempt) Next() (int32, bool) {
	if a.writer == nil {
		return endOfTurn, true
	}
	return a.writer.Next()
}

// sortedJobs are the attempts in the order in which they began.
func sortedJobs(jobs map[*attempt]struct{}) []*attempt {
	out := make([]*attempt, 0, len(jobs))
	for a := range jobs {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *attempt) int { return cmp.Compare(a.number, b.number) })
	return out
}

// start asks for a place at a backend, and sends the call there when it has one.
func (c *call) start() {
	r := c.request.replica
	var lease *pool.Lease
	c.waiter = &admission.Waiter{
		Route: route, Class: class(c.request.req.Priority), Tenant: c.request.req.Tenant,
		Tokens: c.demand.PromptTokens + c.demand.OutputTokens, Config: r.lab.values.Admission, Waited: c.waited, Now: c.now, Must: c.must,
	}
	c.waiter.Try = func(limit pool.Limit) (err error) {
		c.demand.Limit = limit
		lease, err = c.pick()
		return err
	}
	if c.score { // no place that somebody of the lowest class would not get
		c.waiter.Class, c.waiter.Tokens = identity.Low, c.demand.PromptTokens
	}
	asked := r.lab.clock.now
	c.waiter.Done = func(err error) {
		c.waited += r.lab.clock.now - asked
		r.lab.hears(c, err, asked)
		switch {
		case err == nil && c.before != nil && !c.before():
			lease.Done(0)
			c.settle(scoring.Neutral)
			c.onFail(failure{detail: "unwanted"}, false)
		case err == nil:
			c.send(lease)
		case errors.Is(err, admission.ErrShed):
			c.onFail(failure{status: 503, shed: true}, false)
		case errors.Is(err, pool.ErrFull):
			c.onFail(failure{status: 503, detail: "full"}, false)
		case errors.Is(err, scoring.ErrRefused):
			c.onFail(failure{status: 503, detail: "unscored"}, false)
		default:
			c.onFail(failure{status: 503, detail: "no_backend"}, false)
		}
	}
	r.lines[c.tier.name].enter(c.waiter)
}

// leave gives the call up.
func (c *call) leave() {
	if c.current != nil {
		c.current.stop()
	}
	if c.waiter != nil {
		c.request.replica.lines[c.tier.name].Leave(c.waiter)
	}
}

// send sends the call to a backend.
func (c *call) send(lease *pool.Lease) {
	r := c.request.replica
	c.tried++
	l := r.lab
	l.attempts++
	a := &attempt{call: c, backend: r.backends[c.tier.name+"/"+lease.Backend()], lease: lease, number: l.attempts}
	c.current = a
	limit := c.tier.context - len(c.prompt)
	if limit < 1 || c.limit > limit {
		a.fail(failure{status: 400})
		return
	}
	if c.limit > 0 {
		limit = c.limit
	}
	q := c.request.req
	if c.score {
		a.scored()
	} else {
		a.writer = vllmsim.NewWriter(c.tier.model, c.prompt, vllmsim.Sampling{
			Temperature: q.Temperature, MaxTokens: limit, IgnoreEOS: q.IgnoreEOS,
			Seed: c.tier.model.SampleSeed(c.tier.def.Model, c.prompt, 0),
		})
		a.seq = vllmsim.Seq{Prompt: c.prompt, Source: a}
	}
	if r.lab.values.Cache.Isolate {
		a.seq.Salt = salt(q.Tenant)
	}
	if c.tier.def.Policy == "priority" {
		a.seq.Priority = plan.EnginePriority(int8(class(q.Priority)))
	}
	l.clock.after(hop, func() {
		if !a.over {
			a.backend.submit(a)
		}
	})
	if c.patience > 0 {
		l.clock.after(c.patience, func() {
			if !a.over && a.tokens == 0 {
				a.backend.abort(a)
				a.fail(failure{detail: "timeout"})
			}
		})
	}
}

// token hands a token on.
func (a *attempt) token(id int32, done bool) {
	if a.over {
		return // it was left, but the engine has not heard of it yet
	}
	a.tokens++
	a.lease.Came()
	a.lease.Answered()
	if a.tokens == 1 && a.call.stream {
		a.lease.FirstToken()
	}
	if done {
		a.lease.Counted(len(a.call.prompt))
		a.call.settle(scoring.Success)
		a.end()
	}
	a.call.onToken(a, id, done)
}

// settle tells what came of a score, once.
func (c *call) settle(o scoring.Outcome) {
	if c.left != nil {
		c.left(o)
		c.left = nil
	}
}

// end gives the backend's place back.
func (a *attempt) end() {
	if a.over {
		return
	}
	a.over = true
	a.call.settle(scoring.Neutral)
	a.lease.Done(a.tokens)
}

// stop leaves before the end; the engine hears of it a hop later.
func (a *attempt) stop() {
	if a.over {
		return
	}
	a.end()
	a.backend.lab.clock.after(hop, func() { a.backend.abort(a) })
}

// fail ends the attempt and tries elsewhere, where that may help.
func (a *attempt) fail(f failure) {
	if a.over {
		return
	}
	if f.refused {
		a.lease.Refused(errRefused)
	}
	switch {
	case !a.call.score && f.retryable():
		a.lease.Failed()
	case f.lost:
		a.call.settle(scoring.Deadly)
	case !f.refused:
		a.call.settle(scoring.Fault)
	}
	a.end()
	c := a.call
	began := a.tokens > 0 && c.stream
	if began || !f.retryable() || c.tried >= c.attempts {
		c.onFail(f, began)
		return
	}
	c.demand.Exclude = append(c.demand.Exclude, a.lease.Backend())
	if c.onRetry != nil {
		c.onRetry()
	}
	c.start()
}
