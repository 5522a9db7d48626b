package engines

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// maxTops is how many alternatives of a token a draft's chunks tell.
const maxTops = 5

// attempt is one call at one backend: the source of its tokens, and the stream that they are read
// from.
type attempt struct {
	backend *Backend
	number  int // of the run, for an order that does not change
	call    engine.Call
	ctx     context.Context
	answers bool     // it is a part of the answer, and no audit's
	request *Request // whose; nil where the call names none
	silence time.Duration
	forget  func() bool // lets go of ctx

	seq    vllmsim.Seq
	writer *vllmsim.Writer // nil: it has the one token that an engine cannot but generate
	behind []int32         // ids of the answer that its prompt ends with
	form   form

	made     int             // tokens
	ids      []int32         // of an answer in one piece
	unread   []token         // of a stream
	next     int             // of unread
	usage    bool            // the chunk behind the last token was read, too
	done     bool            // the engine has finished
	failure  *engine.Failure // why it did not
	over     bool            // nobody reads on
	wants    engine.Want
	chunk    openai.Chunk
	reader   eventloop.Waiter
	waiting  bool          // somebody reads
	since    time.Duration // when that began
	watching bool          // an event looks after silence
}

// form is how an answer is handed on.
type form uint8

const (
	inOnePiece form = iota
	plain           // a stream of text
	ided            // of text and ids
	judged          // of text, ids and logprobs
)

// token is one that was not read yet.
type token struct {
	id      int32
	logprob float64
	text    string
	finish  string
	tops    [maxTops]float64
	count   int8 // of tops
}

// source makes the tokens of an attempt: a score has one that nobody reads.
type source struct{ *attempt }

// Next implements [vllmsim.Source].
func (s source) Next() (id int32, done bool) {
	if s.writer == nil {
		return endOfTurn, true
	}
	return s.writer.Next()
}

// sorted are attempts in the order in which they began.
func sorted(jobs map[*attempt]struct{}) []*attempt {
	out := make([]*attempt, 0, len(jobs))
	for a := range jobs {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *attempt) int { return cmp.Compare(a.number, b.number) })
	return out
}

// token takes in what the engine has just made.
func (a *attempt) token(id int32, done bool) {
	if a.over {
		return // it was left, but the engine has not heard of it yet
	}
	a.made++
	a.done = done
	if a.form == inOnePiece {
		a.ids = append(a.ids, id)
		if done {
			a.wake()
		}
		return
	}
	t := token{id: id, text: a.writer.Text()}
	if done {
		t.finish = a.writer.Finish()
	}
	if a.form == judged {
		t.logprob = a.writer.Logprob()
		if !a.waiting || a.wants == engine.WantTops {
			t.count = int8(len(a.writer.Top(t.tops[:0], maxTops)))
		}
	}
	a.unread = append(a.unread, t)
	a.wake()
}

func (a *attempt) wake() {
	if a.waiting {
		a.waiting = false
		a.reader.Wake(a.backend.fleet.Loop)
	}
}

// fail ends the attempt.
func (a *attempt) fail(f *engine.Failure) {
	if a.over || a.done || a.failure != nil {
		return
	}
	a.failure = f
	a.wake()
}

// first waits for the first byte: a stream's first token, all of another answer.
func (a *attempt) first() error {
	for a.made == 0 || a.form == inOnePiece && !a.done {
		if a.failure != nil {
			return a.failure
		}
		if err := a.wait(); err != nil {
			return err
		}
	}
	if a.form == inOnePiece {
		a.finish()
	}
	return nil
}

// wait waits for a token, the end or a failure.
func (a *attempt) wait() error {
	loop := a.backend.fleet.Loop
	a.waiting, a.since = true, loop.Elapsed()
	err := a.reader.Wait(a.ctx, loop)
	a.waiting = false
	if err != nil {
		return &engine.Failure{Kind: kindOf(err), Err: err}
	}
	return nil
}

// kindOf tells what the end of a call's context means, by its cause.
func kindOf(cause error) engine.FailureKind {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return engine.Expired
	case errors.Is(cause, pool.ErrLost):
		return engine.Silent
	}
	return engine.ClientGone
}

// watch ends a stream that is silent for too long while somebody reads it. One event looks after
// many waits.
func (a *attempt) watch() {
	if a.watching || a.silence <= 0 {
		return
	}
	a.watching = true
	loop := a.backend.fleet.Loop
	loop.At(a.since+a.silence, func() {
		a.watching = false
		switch {
		case !a.waiting || a.over:
		case loop.Elapsed() < a.since+a.silence:
			a.watch()
		default:
			a.fail(&engine.Failure{Kind: engine.Stalled, Err: engine.ErrStalled})
		}
	})
}

// Next implements [engine.Stream].
func (a *attempt) Next(want engine.Want) (*openai.Chunk, error) {
	a.wants = want
	for {
		switch {
		case a.over:
			return nil, &engine.Failure{Kind: kindOf(context.Cause(a.ctx)), Err: context.Cause(a.ctx)}
		case a.next < len(a.unread):
			return a.read(), nil
		case a.failure != nil:
			return nil, a.failure
		case a.done && (a.usage || a.form == inOnePiece):
			return nil, io.EOF
		case a.done:
			a.usage = true
			c := &a.chunk
			c.Reset()
			c.Plain, c.HasUsage, c.Usage = true, true, a.used()
			return c, nil
		}
		a.since = a.backend.fleet.Loop.Elapsed()
		a.watch()
		if err := a.wait(); err != nil {
			return nil, err
		}
	}
}

// read makes a chunk of the next token.
func (a *attempt) read() *openai.Chunk {
	t, c := &a.unread[a.next], &a.chunk
	first := c.Choices == 0
	if first || a.form == judged {
		c.Reset()
	} else {
		c.Text, c.Finish, c.Ended, c.IDs = c.Text[:0], c.Finish[:0], c.Ended[:0], c.IDs[:0] // there is nothing else
	}
	c.Choices, c.Plain, c.Text = 1, true, append(c.Text, t.text...)
	if t.finish != "" {
		c.Finish, c.Ended = append(c.Finish, t.finish...), append(c.Ended, 0)
	}
	if a.form >= ided {
		c.IDs = append(c.IDs, t.id)
	}
	if a.form == judged {
		c.Logprobs = append(c.Logprobs, t.logprob)
		c.AddTop(t.tops[:t.count]...)
		if first {
			c.PromptIDs = slices.Clip(a.seq.Prompt)
		}
	}
	a.deliverToken(t.id, first)
	if a.next++; a.next == len(a.unread) {
		a.unread, a.next = a.unread[:0], 0
	}
	return c
}

// deliverToken tells the request of a token that was read, or counts it as made for an audit.
func (a *attempt) deliverToken(id int32, first bool) {
	if r := a.request; a.answers && !r.over && r.last == a {
		r.Answer = append(r.Answer, id)
		return
	}
	a.backend.Audits.Decoded++
	if first && !a.answers {
		a.backend.Audits.Prefilled += len(a.seq.Prompt) - a.seq.Cached
	}
}

// used is what the engine counts.
func (a *attempt) used() openai.Usage {
	return openai.Usage{Prompt: len(a.seq.Prompt), Completion: a.made}
}

// Buffered implements [engine.Stream].
func (a *attempt) Buffered() bool { return a.next < len(a.unread) || a.done || a.failure != nil }

// Close implements [engine.Stream]: the engine hears of it a hop later.
func (a *attempt) Close() {
	if a.forget != nil {
		a.forget()
	}
	if a.over {
		return
	}
	a.over = true
	if !a.done && a.failure == nil {
		a.backend.fleet.Loop.After(Hop, func() { a.backend.abort(a) })
	}
}
