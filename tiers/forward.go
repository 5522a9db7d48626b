package tiers

import (
	"context"
	"io"
	"net/http"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// Forward is a request that passes through to a route's target pool.
type Forward struct {
	Path     string          // allow-listed by the caller
	Envelope openai.Envelope // the body, as it was read
	Bytes    int             // of the body
	Tenant   string
	Class    int8        // as Ask.Class
	Need     openai.Need // what it asks of an engine, by Envelope.Need
	ID       string      // as Ask.ID
	Salt     string      // as Ask.Salt
	Header   http.Header
	Spans    bool // as Ask.Spans
}

// readUnit is how much of a passed-through body is read at once.
const readUnit = 32 << 10

// Forward passes a request through to the target pool of the route that its
// body names, and the answer back byte for byte. In the request the model's name is put right, and
// the tenant's salt set where an engine computes on the prompt: an engine that does not know the
// field passes over it. Before the first byte it retries as Answer does. The receipt has the tokens
// that the answer tells of, within what can be.
func (c *Cascade) Forward(ctx context.Context, f Forward, sink Sink) (*receipt.Receipt, error) {
	rc := &receipt.Receipt{Began: c.now(), Plan: plan.Plan{Tier: plan.Target, Reason: "passthrough"}}
	rt, err := c.Route(f.Envelope.Name)
	if err != nil {
		return rc, err
	}
	rc.Route = rt.Model
	cfg := rt.Config()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Deadline(f.Need.Prompt, f.Need.Answer))
	defer cancel()

	var more []openai.Edit
	if f.Salt != "" && f.Need.Computes {
		more = append(more, openai.Edit{Name: "cache_salt", Value: openai.Quote(f.Salt)})
	}
	body := f.Envelope.Apply(make([]byte, 0, f.Bytes+128), rt.Target.Model(), more...)
	x, err := c.dispatch(ctx, f.call(rt, body, cfg), cfg, rc)
	if err != nil {
		return rc, err
	}
	defer x.drop()
	rc.Tier = plan.Target
	rc.First = c.now().Sub(rc.Began)
	rc.Target = rc.First
	meter := openai.NewMeter(x.kind == typeStream)
	err = x.pass(sink, meter)
	c.metrics.passed(rc)
	return rc, err
}

// call is the request's call.
func (f *Forward) call(rt *Route, body []byte, cfg plan.Config) call {
	k := call{
		pool: rt.Target, tier: plan.Target, path: f.Path, body: body, id: f.ID, header: f.Header, spans: f.Spans,
		raw: true, answerless: f.Need.MaxAnswer == 0, prompts: f.Need.MaxPrompt,
		turn:   Turn{Route: rt.Model, Pool: rt.Target.Name(), Tenant: f.Tenant, Class: f.Class, Tokens: f.Need.Prompt},
		demand: pool.Demand{PromptBytes: f.Bytes, Whole: true},
		chunk:  cfg.Timeouts.Chunk, // no first-byte deadline: an answer that is not streamed comes all at once
	}
	if k.answerless {
		return k
	}
	k.demand.OutputTokens, k.demand.MostOutput = plan.TypicalOutput, max(f.Need.MaxAnswer, 0)
	if f.Need.Answer >= 0 {
		k.demand.OutputTokens = min(f.Need.Answer, plan.TypicalOutput)
	}
	k.turn.Tokens += k.demand.OutputTokens
	return k
}

// measure enters what an answer has told of its tokens so far into the receipt. Where it broke off
// before it told them, each event of it counts as a token.
func (x *exchange) measure(m *openai.Meter) {
	u, told := m.Usage()
	came := int64(inOnePiece)
	if x.kind == typeStream {
		came = m.Bytes()
	}
	if u = x.clamp(u, came); !told || !x.ended {
		u.Completion = max(u.Completion, min(m.Pieces(), x.maxAnswer()))
	}
	x.receipt.PromptTokens, x.receipt.TargetTokens = u.Prompt, u.Completion
}

// pass copies a raw answer, one write for each read.
func (x *exchange) pass(sink Sink, meter *openai.Meter) (err error) {
	var failed *engine.Failure
	defer func() {
		x.measure(meter)
		x.close(failed, x.receipt.TargetTokens)
	}()
	err = sink.Begin(Head{Receipt: x.receipt, ContentType: x.kind, Length: x.resp.ContentLength})
	buf := x.whole
	for err == nil {
		if len(buf) > 0 {
			meter.Take(buf)
			if err = sink.Write(buf); err != nil {
				break
			}
		}
		if x.ended {
			break
		}
		x.watch()
		n, rerr := x.resp.Body.Read(x.whole[:cap(x.whole)])
		x.timer.Stop()
		buf = x.whole[:n]
		x.ended = rerr == io.EOF
		if rerr != nil && !x.ended {
			failed = x.failure(rerr)
			return &BrokenError{failed}
		}
	}
	return err
}

// readFirst reads the first bytes of a raw answer.
func (x *exchange) readFirst() error {
	size := int64(readUnit)
	if length := x.resp.ContentLength; length >= 0 {
		size = min(size, length+1) // one more, so that the read that fills it also finds the end
	}
	buf := make([]byte, size)
	n, err := x.resp.Body.Read(buf)
	x.whole, x.ended = buf[:n], err == io.EOF
	if x.ended {
		err = nil
	}
	return err
}
