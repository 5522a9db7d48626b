package tiers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// maxFailovers bounds how often one answer moves to another backend. An answer that breaks four times is likely to break
// because of the request itself.
const maxFailovers = 3

// Why a draft is not judged, or an answer carried on with elsewhere, beside the reasons of accept and draft.
const (
	reasonTargetLost  = "target_lost"       // a backend of the target broke off in mid-answer
	reasonUnavailable = "draft_unavailable" // no backend gave one
	reasonFull        = "draft_full"        // the draft pool has no capacity for its class
)

// errNext says that a step gave no answer and that nothing was sent: the next step is taken.
var errNext = errors.New("no draft to build on")

// BrokenError says that an answer failed after its first byte was sent.
type BrokenError struct{ Cause error }

// Error names the cause.
func (e *BrokenError) Error() string { return fmt.Sprintf("broken off in mid-answer: %v", e.Cause) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// Delivery is where one answer goes.
type Delivery struct {
	Sink         Sink
	Observer     Observer      // receives the answer's content; nil: none
	Confirmation *confirmation // of an answer that is to be kept for others; nil: it is not kept
}

// answer is a request that is being answered.
type answer struct {
	caller
	client    client
	auditor   *auditor  // of its drafts; nil: they are not audited
	failovers int       // how often it moved to another backend
	deadline  time.Time // of an answer that one call gives; else the context has it, and this is zero
	straight  relay     // of an answer that one pool gives
}

// answer answers a request by the steps of its decision. The next step is taken where one gives no answer and the client
// has nothing of it. After an error before the first byte nothing was written. After the first byte the error is a
// *[BrokenError] or the sink's own. A nil auditor audits no draft.
func (r *Request) answer(ctx context.Context, to Delivery, by *auditor) error {
	a := &answer{caller: r.calls(), auditor: by}
	a.client = client{request: r, sink: to.Sink, observer: to.Observer, startedAt: r.World.Now()}
	if to.Observer == nil {
		a.client.observer = Observers(nil)
	}
	steps := r.Decision.Steps
	if len(steps) == 1 { // one call: its own context is enough
		a.deadline = r.World.Now().Add(r.Deadline())
		return a.relay(steps[0].Tier).run(ctx)
	}
	ctx, cancel := r.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	for _, step := range steps {
		if err := a.take(ctx, step); !errors.Is(err, errNext) {
			return err
		}
	}
	return errNext // not reached: the last step is a relay, which has no next
}

// take takes one step.
func (a *answer) take(ctx context.Context, step plan.Step) error {
	switch step.Way {
	case plan.Speculate, plan.Hold:
		return (&drafted{answer: a, streams: step.Way == plan.Speculate}).run(ctx)
	case plan.InOnePiece:
		return a.inOnePiece(ctx)
	}
	return a.relay(step.Tier).run(ctx)
}

// relay returns the step that passes on the answer of the draft pool, or else of the target. An answer takes one at most.
func (a *answer) relay(t plan.Tier) *relay {
	a.straight = relay{answer: a, pool: a.Target}
	if t == plan.Draft {
		a.straight.pool = a.Draft
	}
	return &a.straight
}

// withoutDraft records why no backend made a draft. It returns errNext, or err if the request is over: it has left, or the
// queue has turned it away.
func (a *answer) withoutDraft(ctx context.Context, err error) error {
	_, spent := errors.AsType[*dispatch.ExhaustedError](err)
	_, failed := errors.AsType[*engine.Failure](err)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, pool.ErrFull):
		a.Bypass = reasonFull
	case spent, failed, errors.Is(err, pool.ErrNoBackend):
		a.Bypass = reasonUnavailable
	default:
		return err
	}
	return errNext
}

// interrupted returns the error of a request that was cancelled or timed out. cause is the failure that this caused, or
// nil.
func (a *answer) interrupted(ctx context.Context, cause *engine.Failure) error {
	if cause == nil {
		kind := engine.ClientGone
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			kind = engine.Expired
		}
		cause = &engine.Failure{Kind: kind, Pool: a.Draft.Name(), Err: context.Cause(ctx)}
	}
	return a.wrapError(cause)
}

// wrapError turns a failure after the first byte into a [BrokenError].
func (a *answer) wrapError(err error) error {
	if a.client.headSent {
		return &BrokenError{err}
	}
	return err
}

// mayFailOver reports whether another backend may continue the answer after a failure.
func (a *answer) mayFailOver(f *engine.Failure) bool {
	return a.Config.MidstreamFailover && f.Retryable() && a.failovers < maxFailovers
}

// failOver records that another backend continues the answer, and from which position.
func (a *answer) failOver(why string, at draft.CutPoint) {
	a.failovers++
	a.recordFailover(Failover{Why: why, Tokens: at.Tokens, Bytes: at.Text})
}

// draftRequest returns a call to the draft pool. A backend that is expected to take a quarter of the timeout to begin is
// full: who waits does so better in the gateway, by priority and with the target beside.
func (a *answer) draftRequest(call engine.Call) dispatch.Request {
	o := a.NewRequest(a.Draft, call)
	o.Demand.Optional = true
	o.FirstByteTimeout = a.FirstByteTimeout(a.Config.Timeouts.DraftFirstToken)
	o.MaxDelay = o.FirstByteTimeout / 4
	return o
}

// checkDraft asks the target to check a draft as far as it is, and tells the draft. It returns the backend that has the prompt
// and the draft in its cache now, "" if the target gave no answer.
func (a *answer) checkDraft(ctx context.Context, d *draft.Draft) (warm string) {
	began := a.World.Now()
	verdict, err := NewVerifier(a.caller).Verify(ctx, NewDraft(d))
	a.ScoredTokens += verdict.Computed
	a.recordCheck(verdict.Receipt(err, a.World.Now().Sub(began)))
	if err != nil {
		d.Check(nil)
		return ""
	}
	d.Check(&verdict.Check)
	return verdict.Backend
}

// promptTokens returns the length of the prompt: as an engine has told it, else as one of the pool counts it, else estimated,
// which is marked.
func (a *answer) promptTokens(ctx context.Context, told int, p Pool) int {
	if told > 0 {
		return told
	}
	ids, err := TokenizePrompt(ctx, a.caller, p)
	if err != nil {
		a.Estimated = true
		return a.Body.PromptTokens
	}
	return len(ids)
}

// Sink takes an answer. Begin is called once, before the first Write. Each Write holds whole frames, is flushed, and blocks
// until they are accepted.
type Sink interface {
	Begin(h ResponseHead) error
	Write(p []byte) error
}

// ResponseHead is the data for an answer's headers.
type ResponseHead struct {
	Stream           bool
	ContentType      string // of an answer that passes through; "" otherwise
	Length           int64  // of the body in bytes, also of a stream that is there as a whole; 0 or less is unknown
	Tier, Acceptance string // "" is not told
	FromCache        bool   // it is a cached answer
	Age              time.Duration
	Timing           Timing
}

// Timing splits the time until the first byte; 0 is not reported.
type Timing struct{ Cache, Draft, Verify, Target, Total time.Duration }

// head returns what is known of the answer at its first byte.
func (r *Request) head() ResponseHead {
	draft := r.Receipt.Draft
	if draft == 0 && r.Receipt.Target == 0 {
		draft = r.First - r.Verify
	}
	return ResponseHead{
		Stream: r.Body.Stream, Tier: string(r.Tier), Acceptance: r.Acceptance(),
		Timing: Timing{Cache: r.Lookup, Draft: draft, Verify: r.Verify, Target: r.Receipt.Target, Total: r.First},
	}
}

// Observer receives the content of an answer in the order in which the client gets it. Slices are valid during the call
// only. Whether the answer is complete, the caller of [Pipeline.Answer] knows.
type Observer interface {
	// Text is the next piece of a plain answer: one choice that is text and nothing else.
	Text(text []byte)
	// Chunk is the JSON of a chunk of any other stream. Text may have come before, none comes after.
	Chunk(chunk []byte)
	// Body is the JSON of an answer that a backend gave in one piece.
	Body(answer []byte)
	// End tells how the answer ended: of a plain one all of it, of others the usage.
	End(openai.Ending)
}

// Observers are the observers of one answer; nil is none.
type Observers []Observer

var _ Observer = Observers(nil)

// Text implements [Observer].
func (o Observers) Text(text []byte) {
	for _, each := range o {
		each.Text(text)
	}
}

// Chunk implements [Observer].
func (o Observers) Chunk(chunk []byte) {
	for _, each := range o {
		each.Chunk(chunk)
	}
}

// Body implements [Observer].
func (o Observers) Body(answer []byte) {
	for _, each := range o {
		each.Body(answer)
	}
}

// End implements [Observer].
func (o Observers) End(e openai.Ending) {
	for _, each := range o {
		each.End(e)
	}
}

// client writes an answer in the shape that the client asked for: a stream or one JSON body.
type client struct {
	request   *Request
	sink      Sink
	observer  Observer
	startedAt time.Time // when the request started
	framer    *openai.Framer
	headSent  bool
	buf       []byte
}

// frames returns the framer for answers that are not a backend's own frames.
func (c *client) frames() *openai.Framer {
	if c.framer == nil {
		c.framer = openai.NewFramer(c.request.Body.Kind, c.request.ID, c.request.Body.Model, c.startedAt.Unix())
	}
	return c.framer
}

// begin sends the head. length is that of a JSON body in bytes, 0 for a stream.
func (c *client) begin(length int) error {
	c.headSent = true
	c.request.RecordFirstByte()
	h := c.request.head()
	h.Length = int64(length)
	return c.sink.Begin(h)
}

// whole sends an answer in one write. length is as of begin.
func (c *client) whole(answer []byte, length int) error {
	if err := c.begin(length); err != nil {
		return err
	}
	return c.sink.Write(answer)
}

// open starts a stream. A chat answer starts with the role. prompt is the prompt's length in tokens.
func (c *client) open(prompt int) error {
	if c.headSent {
		return nil
	}
	if err := c.begin(0); err != nil {
		return err
	}
	if c.buf = c.frames().Role(c.buf[:0]); c.request.Body.UsageSoFar && len(c.buf) > 0 {
		c.buf = c.frames().UsageSoFar(c.buf, openai.Usage{Prompt: prompt})
	}
	return nil
}

// send sends text as part of a stream; empty text only starts the stream. soFar is the usage up to the end of the text. A
// client that waits for JSON gets nothing before the end.
func (c *client) send(text []byte, soFar openai.Usage) error {
	if err := c.open(soFar.Prompt); err != nil {
		return err
	}
	if len(text) > 0 {
		c.buf = c.frames().Text(c.buf, text)
		if c.request.Body.UsageSoFar {
			c.buf = c.frames().UsageSoFar(c.buf, soFar)
		}
		c.observer.Text(text)
	}
	if len(c.buf) == 0 {
		return nil
	}
	err := c.sink.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// release sends the text that the transcript may release. prompt is the prompt's length in tokens.
func (c *client) release(t *draft.Transcript, prompt int) error {
	if !c.request.Body.Stream {
		return nil
	}
	text := t.Release()
	return c.send(text, openai.Usage{Prompt: prompt, Completion: t.TokensSent()})
}

// finish sends the rest of an answer and its end.
func (c *client) finish(t *draft.Transcript, e openai.Ending) error {
	if word, _, ok := t.Stop(); ok {
		e.Stop = openai.Quote(word)
	}
	rest := t.Rest()
	c.observer.Text(rest)
	c.observer.End(e)
	if !c.request.Body.Stream {
		body := c.frames().Body(nil, t.Text(), e)
		return c.whole(body, len(body))
	}
	if err := c.open(e.Usage.Prompt); err != nil {
		return err
	}
	c.buf = c.frames().Finish(c.buf, rest, e, c.request.Body.IncludeUsage)
	return c.sink.Write(c.buf)
}

// end finishes an answer with the tokens counted so far.
func (a *answer) end(t *draft.Transcript, f finish) error {
	a.Finish = f.reason
	return a.client.finish(t, openai.Ending{Finish: f.reason, Stop: f.stop, Usage: a.usage(), Extra: a.AppendExtra(nil)})
}

// inOnePiece drafts an answer that may call tools. It requests the draft in one piece, because half a call is of no use,
// and serves it only if all parts are valid.
func (a *answer) inOnePiece(ctx context.Context) error {
	d, whole, started := draft.New(a.DraftOptions()), &openai.DraftAnswer{}, a.World.Now()
	o := a.draftRequest(&engine.Answer{Draft: true, Terms: a.Terms(a.Draft), Request: a.Body, Into: whole})
	o.Demand.Whole, o.Ticket.NoWait = true, true
	o.FirstByteTimeout = a.Config.Timeouts.WholeAnswer(o.FirstByteTimeout, a.Body)
	if _, err := a.Dispatch.Do(ctx, o); err != nil {
		return a.withoutDraft(ctx, err)
	}
	d.TakeWhole(whole)
	v := d.End()
	if v.Reason == accept.ReasonDoubtful {
		a.checkDraft(ctx, d)
		v = d.End()
	}
	a.recordDraft(d, started)
	a.DraftedTokens = d.Tokens()
	a.recordVerdict(v)
	if a.auditor != nil {
		a.auditor.Whole(whole)
	}
	switch {
	case ctx.Err() != nil:
		return a.interrupted(ctx, nil)
	case !v.Accept:
		a.wasted(d.Tokens())
		return errNext
	}
	a.Served = d
	return a.sendWhole(whole)
}

// sendWhole sends a draft that came in one piece, in the shape that the client asked for.
func (a *answer) sendWhole(d *openai.DraftAnswer) error {
	a.Tier, a.Finish = plan.Draft, d.Finish
	a.PromptTokens, a.AcceptedTokens = d.Usage.Prompt, d.Usage.Completion
	c, whole, extra := &a.client, d.Whole(a.Body.Kind), a.AppendExtra(nil)
	body := c.frames().Whole(nil, whole, extra)
	c.observer.Body(body)
	c.observer.End(openai.Ending{Usage: d.Usage})
	if a.Body.Stream {
		body = c.frames().WholeStream(body[:0], whole, extra, a.Body.IncludeUsage)
		return c.whole(body, 0)
	}
	return c.whole(body, len(body))
}
