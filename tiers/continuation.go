package tiers

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// continuation continues an answer from a cut point on a backend of a pool, and on another one if that fails.
type continuation struct {
	*answer
	t    *draft.Transcript
	pool Pool // that continues the answer

	warmBackend string  // its backend whose KV cache holds prompt and answer; "": none
	counter     Counter // counts tokens; holds the failed backends
	midStream   bool    // waits for capacity although the answer has begun: several engines failed in a row, perhaps for lack of memory

	guessed bool // the token count is one per chunk, and a chunk may hold several tokens
	prompt  int  // tokens of the prompt, as an engine counted it; 0 is unknown
	recount bool // the answer so far is counted by an engine, so the usage of the rest tells the prompt
}

// finish is how an answer ended.
type finish struct {
	reason string // finish_reason; "" while it has not
	stop   []byte // stop_reason as raw JSON
}

func (f *finish) of(c *openai.Chunk) {
	if len(c.Finish) > 0 {
		f.reason = string(c.Finish)
		f.stop = append(f.stop[:0], c.Stop...)
	}
}

// carryOn continues from a cut point. If the backend does not repeat the text that the client already has, it continues
// once more from the end of that text. It returns errNext if nothing was sent and a fresh answer is as good: there is
// no text, the target cannot continue it, or the backend failed.
func (c *continuation) carryOn(ctx context.Context, at draft.CutPoint) error {
	err := c.run(ctx, at)
	if errors.Is(err, draft.ErrMismatch) && ctx.Err() == nil {
		c.t.Undo()
		err = c.run(ctx, c.t.End(at.Tokens+1))
	}
	return c.endError(err)
}

// endError returns the error with which a continuation ends.
func (c *continuation) endError(err error) error {
	f, failed := errors.AsType[*engine.Failure](err)
	switch {
	case errors.Is(err, draft.ErrMismatch):
		return c.wrapError(err)
	case failed && !c.client.headSent && f.Kind != engine.ClientGone && f.Kind != engine.Expired:
		return errNext
	}
	return err
}

// run continues from a cut point. It returns errNext if there is nothing to continue, and draft.ErrMismatch if
// the backend did not repeat what the client has.
func (c *continuation) run(ctx context.Context, at draft.CutPoint) error {
	for {
		if c.isFull(at.Tokens) {
			return c.endAt(ctx, at)
		}
		call, demand := c.byIDs(at)
		if call == nil {
			at = c.rewindToWord(ctx)
			if c.isFull(at.Tokens) { // the exact count is higher than the count by chunks
				return c.endAt(ctx, at)
			}
			call, demand = c.byText(at)
		}
		if !c.client.headSent && (c.t.Len() == 0 || !at.Clean && c.Decision.Mode == plan.ModeVerify) {
			return errNext // continuing by text does not guarantee the target's own answer
		}
		c.t.Resume(at) // tokens behind the cut point are not counted
		x, err := c.open(ctx, call, demand)
		if err != nil {
			return c.wrapError(err)
		}
		s := &segment{continuation: c, x: x, from: at, at: at}
		f, err := s.run(ctx)
		c.Leave()
		switch {
		case err != nil || f == nil:
			return err
		case !c.client.headSent || !c.mayFailOver(f):
			return c.wrapError(f)
		}
		at = s.at
		c.warmBackend, c.counter, c.midStream = "", Counter{Lost: append(c.counter.Lost, x.Backend())}, true
		c.failOver(reasonTargetLost, at)
	}
}

// isFull reports whether an answer of so many tokens has reached max_tokens.
func (c *continuation) isFull(tokens int) bool {
	limit := c.Body.Limit()
	return limit > 0 && tokens >= limit
}

// endAt ends an answer that has reached max_tokens.
func (c *continuation) endAt(ctx context.Context, at draft.CutPoint) error {
	c.t.Undo()
	return c.end(ctx, finish{reason: "length"}, at.Tokens)
}

// byIDs returns the call that continues by token ids, or nil if they are unknown or not usable.
func (c *continuation) byIDs(at draft.CutPoint) (engine.Call, pool.Demand) {
	r, prompt, ids := c.Body, c.t.PromptIDs(), c.t.IDs()
	rest := r.Limit() - at.Tokens
	if r.Limit() == 0 {
		window := c.ContextWindow(c.pool.Name())
		if window == 0 {
			return nil, pool.Demand{} // without max_tokens the rest of the context window must be known
		}
		rest = window - len(prompt) - len(ids)
	}
	if c.Decision.Resume != plan.ResumeIDs || !c.t.TellsAll(at) || rest <= 0 {
		return nil, pool.Demand{}
	}
	d := c.Needs
	d.PromptTokens, d.PromptBytes = len(prompt)+len(ids), 0
	return &engine.ContinueIDs{Terms: c.Terms(c.pool), Request: r, PromptIDs: prompt, IDs: ids, MaxTokens: rest}, d
}

// rewindToWord cuts the answer back to the end of a word, so that the target chooses the next token itself, and counts
// the tokens before the cut.
func (c *continuation) rewindToWord(ctx context.Context) draft.CutPoint {
	drafted := c.AcceptedTokens + c.WastedTokens
	tokens, exact := c.t.EndAtWord()
	if c.guessed || !exact {
		if n, err := c.counter.Count(ctx, c.caller, c.pool, c.t.Text()); err == nil {
			tokens = n
		}
	}
	c.AcceptedTokens = min(c.AcceptedTokens, tokens)
	c.WastedTokens = max(drafted-c.AcceptedTokens, 0)
	return c.t.End(tokens)
}

// byText returns the call that continues by text.
func (c *continuation) byText(at draft.CutPoint) (engine.Call, pool.Demand) {
	rest := 0
	if limit := c.Body.Limit(); limit > 0 {
		rest = limit - at.Tokens
	}
	d := c.Needs
	d.PromptBytes += c.t.Len()
	return c.pool.ContinueText(c.Terms(c.pool), c.Body, c.t.Text(), rest), d
}

// open sends the call to a backend. Backends that failed before are tried again only if no other is left.
func (c *continuation) open(ctx context.Context, call engine.Call, demand pool.Demand) (*dispatch.Exchange, error) {
	o := c.NewRequest(c.pool, call)
	o.Demand = demand
	o.Demand.WarmBackend, o.Demand.Exclude = c.warmBackend, c.counter.Lost
	o.Ticket.MidStream = c.client.headSent && !c.midStream
	o.FirstByteTimeout = c.FirstByteTimeout(c.Config.Timeouts.TargetFirstToken)
	c.Enter(c.pool.Tier)
	x, err := c.Open(ctx, o)
	if c.retriesAll(err) {
		o.Demand.Exclude, c.counter.Lost = nil, nil
		x, err = c.Open(ctx, o)
	}
	if err != nil {
		c.Leave()
	}
	return x, err
}

// retriesAll reports whether all backends are tried once more: when only failed ones are left, or when each one failed
// before its first byte although the answer has begun.
func (c *continuation) retriesAll(err error) bool {
	spent, ok := errors.AsType[*dispatch.ExhaustedError](err)
	if len(c.counter.Lost) > 0 {
		return ok || errors.Is(err, pool.ErrNoBackend)
	}
	return ok && c.client.headSent && !spent.AllBusy
}

// end finishes an answer of so many tokens.
func (c *continuation) end(ctx context.Context, f finish, tokens int) error {
	c.PromptTokens = c.promptTokens(ctx, max(c.prompt, len(c.t.PromptIDs())), c.pool)
	c.AcceptedTokens = min(c.AcceptedTokens, tokens)
	c.TargetTokens = tokens - c.AcceptedTokens
	if c.pool.Tier == plan.Draft {
		c.AcceptedTokens, c.TargetTokens = tokens, 0
	}
	return c.answer.end(c.t, f)
}

// afterText continues an answer of which no ids are known: first from its last whole word, and if the backend writes
// that word differently, from the end of the text. minTokens returns a lower bound for the number of tokens in the first
// text bytes; too high a count would end the answer early.
func (c *continuation) afterText(ctx context.Context, minTokens func(text int) int) error {
	c.t.RewindToWord()
	err := c.afterRelease(ctx, minTokens)
	if errors.Is(err, draft.ErrMismatch) && ctx.Err() == nil {
		c.t.Undo()
		err = c.afterRelease(ctx, minTokens)
	}
	return c.endError(err)
}

// afterRelease continues from the current end of the text.
func (c *continuation) afterRelease(ctx context.Context, minTokens func(text int) int) error {
	tokens, err := c.counter.Count(ctx, c.caller, c.pool, c.t.Text()) // frames cannot be counted: one may hold several tokens
	if c.recount = err == nil; err != nil {
		tokens, c.Estimated = minTokens(c.t.Len()), true
	}
	at := c.t.End(tokens)
	c.failOver(reasonTargetLost, at)
	return c.run(ctx, at)
}

// segment is the part of an answer that one backend writes.
type segment struct {
	*continuation
	x        *dispatch.Exchange
	from, at draft.CutPoint // its start, and the last position from which another backend can continue
	tokens   int            // received, as the engine counts them
	usage    openai.Usage
	unsure   bool // the engine gave no count: tokens is one per chunk with text
	ended    finish
}

// run streams the segment. If the backend fails it returns the failure, and s.at is the position from which another
// backend can continue.
func (s *segment) run(ctx context.Context) (*engine.Failure, error) {
	defer s.x.Drop()
	s.x.SetMovable(s.mayFailOver(&engine.Failure{Kind: engine.Silent}))
	for over := false; !over; {
		chunk, err := s.x.Next(engine.WantTokens)
		if err == io.EOF {
			break
		}
		if f, lost := errors.AsType[*engine.Failure](err); lost {
			s.x.Close(f, s.tokens)
			if s.ended.reason != "" {
				break // the answer is complete
			}
			s.guessed = s.guessed || s.unsure
			s.t.Rewind(s.at)
			return f, nil
		}
		if over, err = s.take(chunk); err != nil {
			return nil, err
		}
	}
	s.x.Close(nil, s.tokens)
	if s.t.Pending() {
		return nil, draft.ErrMismatch
	}
	if s.recount {
		s.prompt = max(s.usage.Prompt-s.from.Tokens, 0)
	}
	return nil, s.end(ctx, s.ended, s.from.Tokens+s.tokens)
}

// take adds a chunk to the transcript and sends what may be sent. over says that the answer has ended.
func (s *segment) take(c *openai.Chunk) (over bool, err error) {
	if s.ended.reason != "" { // what comes behind the end is no part of the answer
		c.Text, c.IDs = nil, nil
	}
	if int64(s.t.Len()+len(c.Text)) > s.MaxBody {
		f := s.x.Fail(engine.TooLarge, engine.AboveLimit(s.MaxBody))
		s.x.Close(f, s.tokens)
		return true, s.wrapError(f)
	}
	over, err = s.t.Append(c.Text, c.IDs)
	if err != nil {
		s.x.Close(nil, s.tokens)
		return true, err
	}
	s.count(c)
	if s.ended.of(c); over {
		s.ended.reason = "stop"
	} else if len(c.Text) > 0 && len(c.Finish) == 0 {
		s.at = s.t.Mark(s.from.Tokens+s.tokens, s.from.Clean && len(c.IDs) == 1)
	}
	if s.x.Buffered() || over || len(c.Finish) > 0 || s.t.Pending() {
		return over, nil
	}
	if err := s.client.release(s.t, cmp.Or(s.prompt, len(s.t.PromptIDs()), s.Body.PromptTokens)); err != nil {
		s.x.Close(nil, s.tokens)
		return true, err
	}
	return false, nil
}

// count counts the tokens of a chunk. The engine's total, if it is the last chunk, replaces the count.
func (s *segment) count(c *openai.Chunk) {
	n, reported := c.Tokens(s.tokens)
	s.tokens, s.unsure = s.tokens+n, s.unsure || !reported
	if c.HasUsage {
		s.usage = c.Usage
	}
	if c.Usage.Completion > 0 && (c.Choices == 0 || len(c.Finish) > 0) {
		s.tokens, s.unsure = c.Usage.Completion, false
	}
}
