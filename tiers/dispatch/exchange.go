package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	// unknownWindow is the context length, in tokens, that is taken for one that is not known.
	unknownWindow = 1 << 20
	// maxWindow bounds the context length that a backend names.
	maxWindow = 1 << 24
)

// Exchange is one running call at one backend. It must be closed: its owner defers Drop, so that a panic affects its
// request only. It is for one goroutine.
type Exchange struct {
	services     *services
	request      Request
	lease        pool.Lease
	permit       Permit
	demand       pool.Demand // by which it was picked
	keepsBackend bool        // it stays where it is, though the backend seems to hang: until that is down

	ctx     context.Context
	cancel  context.CancelCauseFunc
	attempt engine.Attempt
	stream  engine.Stream
	form    responseForm

	startedAt time.Time
	first     time.Time    // when the first byte came; zero before
	try       Try          // what is known of it
	entry     int          // of it in the record; 0 is none, or none any more
	counted   bool         // the pool knows the prompt's length
	used      openai.Usage // that it told last
	taken     bool         // a chunk was taken
	closed    bool
}

// acquire waits in the queue and picks a backend. After an error nothing is held.
func (x *Exchange) acquire(ctx context.Context, o *Request) (waited time.Duration, err error) {
	x.ctx, x.cancel = x.services.World.WithDeadline(ctx, o.Deadline)
	defer func() {
		if x.permit == nil { // there was no place, or it panicked
			x.cancel(context.Canceled)
		}
	}()
	return x.services.Queue.Enter(x.ctx, o.Ticket, func(limit pool.Admission) error {
		limit.MaxDelay = o.MaxDelay
		if o.Instead == nil {
			return x.pickWithin(limit, o)
		}
		limit.CanWaitForWarm = false
		err := x.pickWithin(limit, o)
		if !errors.Is(err, pool.ErrFull) {
			return err
		}
		other := o.Instead()
		if x.pickWithin(roomElsewhere, &other) != nil {
			return err
		}
		*o = other
		return nil
	})
}

// roomElsewhere is what a pool must have left for a call that another pool has no capacity for: memory for those that cannot
// go anywhere else, such as the rest of an answer whose draft was rejected, and no queue.
var roomElsewhere = pool.Admission{MaxUsage: 0.8, MaxDelay: 250 * time.Millisecond}

// pickWithin picks a backend for a call within a limit.
func (x *Exchange) pickWithin(limit pool.Admission, o *Request) error {
	x.demand = o.Demand // without those whom a breaker kept out the last time: it may be closed again
	x.demand.Admission = limit
	x.demand.Exclude = slices.Clip(x.demand.Exclude)
	return x.pick(o)
}

// pick picks a backend whose breaker permits the call.
func (x *Exchange) pick(o *Request) error {
	for {
		if err := o.Pool.PickInto(&x.lease, &x.demand); err != nil {
			return err
		}
		err := x.acquirePermit(o)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[ScoreRefusedError](err); ok && refused != ErrScoreBusy {
			return err
		}
		x.demand.Exclude = append(x.demand.Exclude, x.lease.Backend())
	}
}

// acquirePermit asks for a permit at the picked backend, and releases the lease if there is none.
func (x *Exchange) acquirePermit(o *Request) error {
	permitted := false
	defer func() {
		if !permitted { // or it panicked
			x.lease.Done(0)
		}
	}()
	var err error
	x.permit, err = x.allow(o)
	permitted = err == nil
	return err
}

// allow asks the backend's breaker; for a score, the scoring limiter.
func (x *Exchange) allow(o *Request) (Permit, error) {
	if o.Scoring == nil {
		return x.services.Breaker.Allow(o.Pool.Name(), x.lease.Backend(), o.Ticket.Tenant)
	}
	s := *o.Scoring
	s.Tenant = o.Ticket.Tenant
	leave, err := x.services.Scores.Acquire(o.Pool.Name(), x.lease.Backend(), s, x.services.World.Now())
	if err != nil {
		return nil, err
	}
	return scorePermit{x.services.World, leave}, nil
}

// open makes the attempt. After a failure everything is closed and reported.
func (x *Exchange) open(waited time.Duration) *engine.Failure {
	opened := false
	defer func() {
		if !opened {
			x.Drop()
		}
	}()
	x.form = formOf(x.request.Call)
	x.begin(waited)
	x.SetMovable(!x.keepsBackend)
	stream, err := x.services.Upstream.Open(x.ctx, x.prepare())
	x.lease.Pause(x.attempt.Pause)
	if err != nil {
		f := x.failure(err)
		x.Close(f, 0)
		return f
	}
	x.stream, x.first = stream, x.services.World.Now()
	x.lease.ReportCredentials(x.use(), x.attempt.Credentials, nil)
	if x.form != formRaw && x.request.Role != RoleTokenize {
		x.lease.ReportModel()
	}
	switch x.form {
	case formStream:
		x.lease.FirstToken()
	case formRaw:
		x.SetMovable(false) // nobody could carry on with it
	case formBody: // its first byte is its last, too
		x.lease.MarkAlive()
		x.count(x.attempt.Used)
	}
	x.permit.Report(nil)
	opened = true
	return nil
}

// begin adds the call to the record.
func (x *Exchange) begin(waited time.Duration) {
	o := &x.request
	x.startedAt = x.services.World.Now()
	x.try = Try{
		Pool: o.Pool.Name(), Backend: x.lease.Backend(), URL: x.lease.URL(), Role: o.Role, Score: o.Scoring != nil, Waited: waited,
	}
	x.entry = o.Events.Tried(x.try, x.startedAt)
}

// prepare returns the attempt at the picked backend.
func (x *Exchange) prepare() *engine.Attempt {
	o, a := &x.request, &x.attempt
	*a = engine.Attempt{
		Call: o.Call, Backend: x.lease.Backend(), URL: x.lease.URL(), Engine: x.lease.Engine(),
		Credentials: o.Pool.Credentials(), FirstByteTimeout: o.FirstByteTimeout, IdleTimeout: o.IdleTimeout, MaxPrompt: o.MaxPrompt, MaxAnswer: x.MaxAnswer(),
	}
	if o.Pool.External() {
		return a // no id and no trace is an outsider's to know
	}
	a.Header = o.Header
	if o.ID != "" {
		x.try.Call = CallName(x.services.calls.Add(1))
		a.ID = o.ID + "-" + x.try.Call
	}
	if o.Spans && x.entry > 0 {
		a.Header = span(o.Header, &x.try)
	}
	return a
}

// MaxAnswer returns the largest possible length of the answer in tokens.
func (x *Exchange) MaxAnswer() int {
	o := &x.request
	if o.Demand.NoAnswer {
		return 0
	}
	maxOutput := o.Demand.MaxOutput
	if maxOutput <= 0 {
		maxOutput = unknownWindow
		if window := x.services.Window(o.Pool.Name()); window > 0 {
			maxOutput = min(window, maxWindow)
		}
	}
	return maxOutput * max(o.Demand.Answers, 1)
}

// Backend returns the backend's id.
func (x *Exchange) Backend() string { return x.lease.Backend() }

// Tier returns that of the pool: not that of the call which was asked for, if another one was made instead.
func (x *Exchange) Tier() plan.Tier { return x.request.Tier }

// SetMovable says whether the call is cancelled as soon as its backend seems to hang and another one would do better.
// Before the first byte any other backend can answer; after it the caller must be able to continue the answer.
func (x *Exchange) SetMovable(may bool) { x.lease.OnLost(x.cancel, !may) }

// Next waits for the next chunk. The error is io.EOF after the last one, else a *engine.Failure. The chunk is valid
// until the next call.
func (x *Exchange) Next(want engine.Want) (*openai.Chunk, error) {
	fresh := !x.stream.Buffered() // what is at hand says nothing of the backend now
	c, err := x.stream.Next(want)
	switch {
	case err == io.EOF: // of a failure it may be the cause
		return nil, err
	case err != nil:
		return nil, x.failure(err)
	}
	if x.taken && x.form == formStream { // bytes that pass through are no tokens
		x.lease.CountToken()
		if fresh {
			x.lease.MarkAlive()
		}
	}
	x.taken = true
	if c.HasUsage {
		x.count(c.Usage)
	}
	return c, nil
}

// Buffered reports whether Next returns at once.
func (x *Exchange) Buffered() bool { return x.stream.Buffered() }

// count tells the pool the exact length of the prompt.
func (x *Exchange) count(u openai.Usage) {
	if u.Prompt > 0 {
		x.used = u
	}
	if !x.counted && u.Prompt > 0 {
		x.counted = true
		x.lease.SetPromptTokens(u.Prompt)
	}
}

// Fail returns a failure of the backend for an error that the gateway found in its answer.
func (x *Exchange) Fail(kind engine.FailureKind, err error) *engine.Failure {
	return x.failure(&engine.Failure{Kind: kind, Err: err})
}

// failure returns the failure of an attempt's error, with pool and backend. An error that is none counts as a broken
// connection.
func (x *Exchange) failure(err error) *engine.Failure {
	f, ok := errors.AsType[*engine.Failure](err)
	if !ok {
		f = &engine.Failure{Kind: engine.Reset, Err: err}
	}
	f.Pool, f.Backend = x.request.Pool.Name(), x.lease.Backend()
	return f
}

// Cancel ends the exchange. Other goroutines may call it.
func (x *Exchange) Cancel() { x.cancel(context.Canceled) }

// Close ends the exchange; an unfinished stream is aborted. f is the failure, or nil; generated is the number of tokens
// of the answer. Only the first call counts.
func (x *Exchange) Close(f *engine.Failure, generated int) {
	if x.closed {
		return
	}
	x.closed = true
	defer x.releaseLease(f, generated) // also when something before it panics
	defer x.report(f)
	if x.stream != nil {
		x.stream.Close()
	}
	if x.cancel != nil {
		x.cancel(context.Canceled)
	}
	x.Settle(f, generated)
}

// Drop closes an exchange that is still open.
func (x *Exchange) Drop() { x.Close(nil, 0) }

// Settle completes the record of a call: f is its failure or nil, tokens the number received.
func (x *Exchange) Settle(f *engine.Failure, tokens int) {
	if x.entry == 0 {
		return
	}
	t := &x.try
	if !x.first.IsZero() {
		t.First = max(x.first.Sub(x.startedAt), 1)
		t.Status = http.StatusOK
	} else if f != nil {
		t.Status = f.Responded
	}
	t.Took, t.Tokens = max(x.services.World.Now().Sub(x.startedAt), 1), tokens
	switch {
	case f == nil:
	case x.first.IsZero():
		t.Failed = f.Kind
	default:
		t.Broke = f.Kind
	}
	x.request.Events.Settled(x.entry, *t)
	x.entry = 0
}

// HandOver gives the exchange to another record after so many tokens. The first record is complete and is not changed
// any more.
func (x *Exchange) HandOver(to Events, tokens int) {
	x.Settle(nil, tokens)
	x.request.Events = to
}

// releaseLease releases the slot at the backend; f is the call's failure or nil.
func (x *Exchange) releaseLease(f *engine.Failure, generated int) {
	usd := x.lease.Done(generated)
	if x.request.Pool.External() {
		usd = x.tokensUSD(f)
	}
	x.request.Events.Cost(x.request.Tier, usd)
	x.services.Metrics.AddCost(x.request.Tier, usd)
}

// tokensUSD returns what the call costs at a hosted backend: by the tokens that it has told. One that may have worked
// without telling them is paid the most that the call may cost.
func (x *Exchange) tokensUSD(f *engine.Failure) float64 {
	switch {
	case x.used.Prompt > 0:
		return x.lease.Pay(x.used.Prompt, x.used.Cached, x.used.Completion)
	case x.attempt.Call == nil, x.first.IsZero() && f != nil && !f.MayHaveWorked():
		return 0
	}
	return x.request.Pool.TokenPrice().Bound(&x.demand)
}

// report tells the pool and the breaker the outcome of the call.
func (x *Exchange) report(f *engine.Failure) {
	scores := x.request.Scoring != nil
	switch {
	case x.first.IsZero() && f == nil:
		x.permit.Report(&engine.Failure{Kind: engine.ClientGone})
	case x.first.IsZero():
		switch f.Kind {
		case engine.Refused:
			x.lease.ReportRefused(f)
		case engine.Unauthorized:
			x.lease.ReportCredentials(x.use(), x.attempt.Credentials, f)
		case engine.WrongModel:
			if x.form != formRaw {
				x.lease.ReportWrongModel(f.Path, f.Reply())
			}
		}
		if x.form == formRaw && (f.Kind == engine.Unauthorized || f.Kind == engine.WrongModel) {
			x.permit.Report(&engine.Failure{Kind: engine.ClientGone}) // clients choose the path, so it says nothing about the others
			return
		}
		if c := engine.Classify(f); !scores && (c == engine.ClassFault || c == engine.ClassBusy) {
			x.lease.ReportFailed() // however fast it says so
		}
		if f.Kind == engine.Expired { // not a byte in all that time is the backend's fault
			f = &engine.Failure{Kind: engine.Timeout, Pool: f.Pool, Backend: f.Backend, Err: f.Err}
		}
		x.permit.Report(f)
	case f != nil && !scores:
		// The outcome was told at the first byte; a later fault is one more sample.
		if late, err := x.services.Breaker.Allow(x.request.Pool.Name(), x.lease.Backend(), x.request.Ticket.Tenant); err == nil {
			late.Report(f)
		}
		x.services.Metrics.CountFailure(f)
	}
}

// use is what the pool's credentials are shown for.
func (x *Exchange) use() pool.Use {
	if x.form == formRaw {
		return pool.ForPassthrough
	}
	return pool.ForRequests
}

// responseForm is how an answer arrives.
type responseForm uint8

const (
	formBody responseForm = iota
	formStream
	formRaw
)

// formOf returns how the answer to a call arrives.
func formOf(c engine.Call) responseForm {
	switch c := c.(type) {
	case *engine.Draft, *engine.ContinueIDs, *engine.ContinueText:
		return formStream
	case *engine.Relay:
		if c.Request.Stream {
			return formStream
		}
	case *engine.Forward:
		return formRaw
	}
	return formBody
}
