package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// playedRig is a request whose engines and client a test plays. An id of these engines is a letter of the answer: 'a' is 97.
type playedRig struct {
	t       *testing.T
	request *Request
	rc      *Receipt
	answer  func(call engine.Call) (engine.Stream, error) // of the engines; what it leaves open is a 400
	calls   []string                                      // that were made, by their kinds
	left    []time.Duration                               // until each call's deadline
	streams int                                           // that are open
	begun   int
	body    bytes.Buffer // what the client has
	panics  bool         // the client, instead of failing
	fails   int          // the write with which the client fails; 0 is the beginning, less is none
	writes  int
}

var errClient = errors.New("the client's own")

// newPlayedRig makes a request of a stream, of 40 tokens at most, that is answered by a plan.
func newPlayedRig(t *testing.T, p plan.Plan, more string) *playedRig {
	t.Helper()
	r := &playedRig{t: t, fails: -1}
	const asked = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":40,"stream":true`
	r.request = playedRequest(t, r, open{}, asked+more+`}`, "http://targets")
	r.request.Plan = p
	r.request.Config.Timeouts = plan.Timeouts{DraftFirstToken: time.Minute, TargetFirstToken: time.Minute, StreamIdle: time.Minute, Total: time.Hour}
	capabilities := &probe.Capabilities{EOS: []int32{'$'}, Scoring: openai.ScoreCompletions, TokenIDs: true}
	r.request.Draft.Capabilities, r.request.Target.Capabilities = capabilities, capabilities
	return r
}

// run answers the request.
func (r *playedRig) run(ctx context.Context) error {
	r.begin()
	err := r.request.answer(ctx, Delivery{Sink: r}, nil)
	r.permitReturned()
	return err
}

// begin decides how the request is answered.
func (r *playedRig) begin() {
	q := r.request
	r.rc = NewReceipt("m", time.Now())
	q.Receipt, r.rc.Decision = r.rc, plan.Decide(&plan.Inputs{Plan: q.Plan, Config: &q.Config, Request: q.Body})
}

// answering is an answer of which nothing was made yet.
func (r *playedRig) answering() *answer {
	r.begin()
	a := &answer{caller: r.request.calls()}
	a.client = client{request: r.request, sink: r, observer: Observers(nil), startedAt: time.Now()}
	return a
}

// permitReturned fails the test where a place at a backend is held for ever, or an engine writes on.
func (r *playedRig) permitReturned() {
	if r.streams != 0 {
		r.t.Errorf("%d streams are open", r.streams)
	}
	for _, p := range []Pool{r.request.Draft, r.request.Target} {
		for _, b := range p.Snapshot() {
			if b.InFlight != 0 {
				r.t.Errorf("%d places at %s are held for ever", b.InFlight, b.ID)
			}
		}
	}
}

// Open implements [engine.Upstream].
func (r *playedRig) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	r.calls = append(r.calls, kindOf(a.Call))
	at, _ := ctx.Deadline()
	r.left = append(r.left, time.Until(at))
	s, err := r.answer(a.Call)
	if err != nil {
		return nil, err
	}
	if s != nil {
		r.streams++
		return &openStream{Stream: s, over: func() { r.streams-- }}, nil
	}
	return nil, &engine.Failure{Kind: engine.Rejected, Status: 400, Responded: 400}
}

// Begin implements [Sink].
func (r *playedRig) Begin(ResponseHead) error {
	r.begun++
	return r.fault(0)
}

// Write implements [Sink].
func (r *playedRig) Write(p []byte) error {
	r.writes++
	if err := r.fault(r.writes); err != nil {
		return err
	}
	r.body.Write(p)
	return nil
}

func (r *playedRig) fault(at int) error {
	if r.fails == at && r.panics {
		panic("of a client")
	}
	if r.fails == at {
		return errClient
	}
	return nil
}

// clientAnswer is what the client makes of its answer: the text, how it ended, and the usage that it was told.
func (r *playedRig) clientAnswer() (text, finish string, prompt, completion int) {
	r.t.Helper()
	a := read(r.t, true, r.body.Bytes())
	return a.text, a.finish, a.usage.Prompt, a.usage.Completion
}

// stream is an answer whose chunks come one by one, and that ends with err; nil is a good end.
type stream struct {
	chunks []openai.Chunk
	err    error
}

func (s *stream) Next(engine.Want) (*openai.Chunk, error) {
	if len(s.chunks) > 0 {
		c := &s.chunks[0]
		s.chunks = s.chunks[1:]
		return c, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, io.EOF
}

// openStream is a stream until it is closed.
type openStream struct {
	engine.Stream
	over func()
}

func (s *openStream) Close() {
	s.over()
	s.over = func() {}
}

func (*stream) Buffered() bool { return false }
func (*stream) Close()         {}

// letters streams a text letter by letter, by ids and with logprobs, to an end if there is one.
func letters(text, finish string, err error) *stream {
	s := &stream{err: err}
	for i, l := range []byte(text) {
		c := openai.Chunk{Choices: 1, Plain: true, Text: []byte{l}, IDs: []int32{int32(l)}, Logprobs: []float64{-0.01}}
		c.AddTop(-0.01, -5)
		if i == 0 {
			c.PromptIDs = []int32{1, 2, 3}
		}
		s.chunks = append(s.chunks, c)
	}
	if finish != "" {
		s.chunks = append(s.chunks, openai.Chunk{Choices: 1, Plain: true, Finish: []byte(finish)})
	}
	return s
}

// relayedAs is the target's own answer.
func relayedAs(text string) *stream {
	raw := fmt.Sprintf(`{"model":"big","choices":[{"index":0,"delta":{"content":%q},"finish_reason":"stop"}]}`, text)
	c := openai.Chunk{
		Raw: []byte(raw), Model: openai.Span{Start: 9, End: 14}, Close: len(raw) - 1,
		Choices: 1, Plain: true, Text: []byte(text), Finish: []byte("stop"), Ended: []int{0},
	}
	return &stream{chunks: []openai.Chunk{c}}
}

// scores has the target choose what it is asked about.
func scores(c *engine.Score) *stream {
	*c.Into = openai.Scores{}
	for _, id := range c.Question.Draft {
		c.Into.Tokens = append(c.Into.Tokens, openai.Scored{Logprob: -0.1, Top: -0.1, TopID: id})
	}
	return &stream{}
}
