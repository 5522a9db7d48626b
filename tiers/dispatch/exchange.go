package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/economy"
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
	charged   economy.Work // of which the cost was told
	taken     bool         // a chunk was taken
	closed    bool
}

// acquire waits in the queue and picks a backend. After an error nothing is held.
func (e *Exchange) acquire(ctx context.Context, o *Request) (waited time.Duration, err error) {
	e.ctx, e.cancel = e.services.World.WithDeadline(ctx, o.Deadline)
	defer func() {
		if e.permit == nil { // there was no place, or it panicked
			e.cancel(context.Canceled)
		}
	}()
	return e.services.Queue.Enter(e.ctx, o.Ticket, func(limit pool.Admission) error {
		limit.MaxDelay = o.MaxDelay
		if o.Instead == nil {
			return e.pickWithin(limit, o)
		}
		limit.CanWaitForWarm = false
		err := e.pickWithin(limit, o)
		if !errors.Is(err, pool.ErrFull) {
			return err
		}
		other := o.Instead()
		if e.pickWithin(roomElsewhere, &other) != nil {
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
func (e *Exchange) pickWithin(limit pool.Admission, o *Request) error {
	e.demand = o.Demand // without those whom a breaker kept out the last time: it may be closed again
	e.demand.Admission = limit
	e.demand.Exclude = slices.Clip(e.demand.Exclude)
	return e.pick(o)
}

// pick picks a backend whose breaker permits the call.
func (e *Exchange) pick(o *Request) error {
	for {
		if err := o.Pool.PickInto(&e.lease, &e.demand); err != nil {
			return err
		}
		err := e.acquirePermit(o)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[ScoreRefusedError](err); ok && refused != ErrScoreBusy {
			return err
		}
		e.demand.Exclude = append(e.demand.Exclude, e.lease.Backend())
	}
}

// acquirePermit asks for a permit at the picked backend, and releases the lease if there is none.
func (e *Exchange) acquirePermit(o *Request) error {
	permitted := false
	defer func() {
		if !permitted { // or it panicked
			e.lease.Done(0)
		}
	}()
	var err error
	e.permit, err = e.allow(o)
	permitted = err == nil
	return err
}

// allow asks the backend's breaker; for a score, the scoring limiter.
func (e *Exchange) allow(o *Request) (Permit, error) {
	if o.Scoring == nil {
		return e.services.Breaker.Allow(o.Pool.Name(), e.lease.Backend(), o.Ticket.Tenant)
	}
	s := *o.Scoring
	s.Tenant = o.Ticket.Tenant
	leave, err := e.services.Scores.Acquire(o.Pool.Name(), e.lease.Backend(), s, e.services.World.Now())
	if err != nil {
		return nil, err
	}
	return scorePermit{e.services.World, leave}, nil
}

// open makes the attempt. After a failure everything is closed and reported.
func (e *Exchange) open(waited time.Duration) *engine.Failure {
	opened := false
	defer func() {
		if !opened {
			e.Drop()
		}
	}()
	e.form = formOf(e.request.Call)
	e.begin(waited)
	e.SetMovable(!e.keepsBackend)
	stream, err := e.services.Upstream.Open(e.ctx, e.prepare())
	e.lease.Pause(e.attempt.Pause)
	if err != nil {
		f := e.failure(err)
		e.Close(f, 0)
		return f
	}
	e.stream, e.first = stream, e.services.World.Now()
	e.lease.ReportCredentials(e.use(), e.attempt.Credentials, nil)
	if e.form != formRaw && e.request.Role != RoleTokenize {
		e.lease.ReportModel()
	}
	switch e.form {
	case formStream:
		e.lease.FirstToken()
	case formRaw:
		e.SetMovable(false) // nobody could carry on with it
	case formBody: // its first byte is its last, too
		e.lease.MarkAlive()
		e.Count(e.attempt.Used)
	}
	e.permit.Report(nil)
	opened = true
	return nil
}

// begin adds the call to the record.
func (e *Exchange) begin(waited time.Duration) {
	o := &e.request
	e.startedAt = e.services.World.Now()
	e.try = Try{
		Pool: o.Pool.Name(), Backend: e.lease.Backend(), URL: e.lease.URL(), Role: o.Role, Score: o.Scoring != nil, Waited: waited,
	}
	e.entry = o.Events.Tried(e.try, e.startedAt)
}

// prepare returns the attempt at the picked backend.
func (e *Exchange) prepare() *engine.Attempt {
	o, a := &e.request, &e.attempt
	*a = engine.Attempt{
		Call: o.Call, Backend: e.lease.Backend(), URL: e.lease.URL(), Engine: e.lease.Engine(),
		Credentials: o.Pool.Credentials(), FirstByteTimeout: o.FirstByteTimeout, IdleTimeout: o.IdleTimeout, MaxPrompt: o.MaxPrompt, MaxAnswer: e.MaxAnswer(),
	}
	if o.Pool.External() {
		return a // no id and no trace is an outsider's to know
	}
	a.Header = o.Header
	if o.ID != "" {
		e.try.Call = CallName(e.services.calls.Add(1))
		a.ID = o.ID + "-" + e.try.Call
	}
	if o.Spans && e.entry > 0 {
		a.Header = span(o.Header, &e.try)
	}
	return a
}

// MaxAnswer returns the largest possible length of the answer in tokens.
func (e *Exchange) MaxAnswer() int {
	o := &e.request
	if o.Demand.NoAnswer {
		return 0
	}
	maxOutput := o.Demand.MaxOutput
	if maxOutput <= 0 {
		maxOutput = unknownWindow
		if window := e.services.Window(o.Pool.Name()); window > 0 {
			maxOutput = min(window, maxWindow)
		}
	}
	return maxOutput * max(o.Demand.Answers, 1)
}

// Backend returns the backend's id.
func (e *Exchange) Backend() string { return e.lease.Backend() }

// Tier returns that of the pool: not that of the call which was asked for, if another one was made instead.
func (e *Exchange) Tier() plan.Tier { return e.request.Tier }

// SetMovable says whether the call is cancelled as soon as its backend seems to hang and another one would do better.
// Before the first byte any other backend can answer; after it the caller must be able to continue the answer.
func (e *Exchange) SetMovable(may bool) { e.lease.OnLost(e.cancel, !may) }

// Next waits for the next chunk. The error is io.EOF after the last one, else a *engine.Failure. The chunk is valid
// until the next call.
func (e *Exchange) Next(want engine.Want) (*openai.Chunk, error) {
	fresh := !e.stream.Buffered() // what is at hand says nothing of the backend now
	c, err := e.stream.Next(want)
	switch {
	case err == io.EOF: // of a failure it may be the cause
		return nil, err
	case err != nil:
		return nil, e.failure(err)
	}
	if e.taken && e.form == formStream { // bytes that pass through are no tokens
		e.lease.CountToken()
		if fresh {
			e.lease.MarkAlive()
		}
	}
	e.taken = true
	if c.HasUsage {
		e.Count(c.Usage)
	}
	return c, nil
}

// Buffered reports whether Next returns at once.
func (e *Exchange) Buffered() bool { return e.stream.Buffered() }

// Count says what the engine has told of its work so far: it gives the pool the exact length of the prompt.
func (e *Exchange) Count(u openai.Usage) {
	if u.Prompt > 0 {
		e.used = u
	}
	if !e.counted && u.Prompt > 0 {
		e.counted = true
		e.lease.SetPromptTokens(u.Prompt)
	}
}

// Fail returns a failure of the backend for an error that the gateway found in its answer.
func (e *Exchange) Fail(kind engine.FailureKind, err error) *engine.Failure {
	return e.failure(&engine.Failure{Kind: kind, Err: err})
}

// failure returns the failure of an attempt's error, with pool and backend. An error that is none counts as a broken
// connection.
func (e *Exchange) failure(err error) *engine.Failure {
	f, ok := errors.AsType[*engine.Failure](err)
	if !ok {
		f = &engine.Failure{Kind: engine.Reset, Err: err}
	}
	f.Pool, f.Backend = e.request.Pool.Name(), e.lease.Backend()
	return f
}

// Cancel ends the exchange. Other goroutines may call it.
func (e *Exchange) Cancel() { e.cancel(context.Canceled) }

// Close ends the exchange; an unfinished stream is aborted. f is the failure, or nil; generated is the number of tokens
// of the answer. Only the first call counts.
func (e *Exchange) Close(f *engine.Failure, generated int) {
	if e.closed {
		return
	}
	e.closed = true
	defer e.releaseLease(f, generated) // also when something before it panics
	defer e.report(f)
	if e.stream != nil {
		e.stream.Close()
	}
	if e.cancel != nil {
		e.cancel(context.Canceled)
	}
	e.Settle(f, generated)
}

// Drop closes an exchange that is still open.
func (e *Exchange) Drop() { e.Close(nil, 0) }

// Settle completes the record of a call: f is its failure or nil, tokens the number received.
func (e *Exchange) Settle(f *engine.Failure, tokens int) {
	if e.entry == 0 {
		return
	}
	t := &e.try
	if !e.first.IsZero() {
		t.First = max(e.first.Sub(e.startedAt), 1)
		t.Status = http.StatusOK
	} else if f != nil {
		t.Status = f.Responded
	}
	t.Took, t.Tokens = max(e.services.World.Now().Sub(e.startedAt), 1), tokens
	switch {
	case f == nil:
	case e.first.IsZero():
		t.Failed = f.Kind
	default:
		t.Broke = f.Kind
	}
	e.request.Events.Settled(e.entry, *t)
	e.entry = 0
}

// HandOver gives the exchange to another record after so many tokens. The first record is complete, with the cost of what was
// done for it, and is not changed any more.
func (e *Exchange) HandOver(to Events, tokens int) {
	e.Settle(nil, tokens)
	e.charge(e.work(nil, tokens))
	e.request.Events = to
}

// releaseLease releases the slot at the backend; f is the call's failure or nil.
func (e *Exchange) releaseLease(f *engine.Failure, generated int) {
	defer e.lease.Done(generated)
	e.charge(e.work(f, generated))
}

// charge tells the cost of the call's work so far, less what was told already.
func (e *Exchange) charge(w economy.Work) {
	part := w.Less(e.charged)
	if part == (economy.Work{}) {
		return
	}
	e.charged = w
	usd, known := e.lease.Charge(part)
	e.request.Events.Cost(Cost{Tier: e.request.Tier, USD: usd, Unknown: !known, Cached: part.Cached})
}

// work returns what the call's backend did for so many tokens of an answer: what its engine has told, else what is expected.
// A hosted backend that may have worked without telling is paid the most that the call may cost.
func (e *Exchange) work(f *engine.Failure, generated int) economy.Work {
	external := e.request.Pool.External()
	switch {
	case e.used.Prompt > 0:
		w := economy.Work{Prompt: e.used.Prompt, Cached: e.used.Cached, Answer: e.used.Completion}
		if w.Cached == 0 && !external && e.request.Scoring == nil { // few engines tell it, and scores read no cache
			w.Cached = e.lease.Work(0).Cached
		}
		return w
	case e.attempt.Call == nil, e.request.Role == RoleTokenize, e.first.IsZero() && f != nil && !f.MayHaveWorked():
		return economy.Work{}
	case external:
		return e.demand.Bound()
	case e.first.IsZero():
		return e.lease.Work(-1)
	}
	return e.lease.Work(generated)
}

// report tells the pool and the breaker the outcome of the call.
func (e *Exchange) report(f *engine.Failure) {
	scores := e.request.Scoring != nil
	switch {
	case e.first.IsZero() && f == nil:
		e.permit.Report(&engine.Failure{Kind: engine.ClientGone})
	case e.first.IsZero():
		switch f.Kind {
		case engine.Refused:
			e.lease.ReportRefused(f)
		case engine.Unauthorized:
			e.lease.ReportCredentials(e.use(), e.attempt.Credentials, f)
		case engine.WrongModel:
			if e.form != formRaw {
				e.lease.ReportWrongModel(f.Path, f.Reply())
			}
		}
		if e.form == formRaw && (f.Kind == engine.Unauthorized || f.Kind == engine.WrongModel) {
			e.permit.Report(&engine.Failure{Kind: engine.ClientGone}) // clients choose the path, so it says nothing about the others
			return
		}
		if c := engine.Classify(f); !scores && (c == engine.ClassFault || c == engine.ClassBusy) {
			e.lease.ReportFailed() // however fast it says so
		}
		if f.Kind == engine.Expired { // not a byte in all that time is the backend's fault
			f = &engine.Failure{Kind: engine.Timeout, Pool: f.Pool, Backend: f.Backend, Err: f.Err}
		}
		e.permit.Report(f)
	case f != nil && !scores:
		// The outcome was told at the first byte; a later fault is one more sample.
		if late, err := e.services.Breaker.Allow(e.request.Pool.Name(), e.lease.Backend(), e.request.Ticket.Tenant); err == nil {
			late.Report(f)
		}
		e.services.metrics.countFailure(f)
	}
}

// use is what the pool's credentials are shown for.
func (e *Exchange) use() pool.Use {
	if e.form == formRaw {
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
