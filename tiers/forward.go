package tiers

import (
	"context"
	"io"
	"net/http"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// Forward is a request that passes through to a route's target pool.
type Forward struct {
	Path     string          // allow-listed by the caller
	Envelope openai.Envelope // the body, as it was read
	Bytes    int             // of the body
	Tenant   string
	Class    int8   // as Ask.Class
	Salt     string // as Ask.Salt, for the paths that take one
	Header   http.Header
	Spans    bool // as Ask.Spans
}

// salted are the paths beside the cascade's own whose requests have a cache_salt.
func salted(path string) bool { return path == "/v1/responses" }

// readUnit is how much of a passed-through body is read at once.
const readUnit = 32 << 10

// Forward passes a request through to the target pool of the route that its
// body names, and the answer back byte for byte. Only the model's name in the
// request is put right. Before the first byte it retries as Answer does.
func (c *Cascade) Forward(ctx context.Context, f Forward, sink Sink) (*Receipt, error) {
	rc := &Receipt{Began: c.now(), Plan: Plan{Tier: Target, Reason: "passthrough"}}
	rt, err := c.Route(f.Envelope.Name)
	if err != nil {
		return rc, err
	}
	rc.Route = rt.Model
	cfg := rt.Config()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Total)
	defer cancel()

	var more []openai.Edit
	if f.Salt != "" && salted(f.Path) {
		more = append(more, openai.Edit{Name: "cache_salt", Value: openai.Quote(f.Salt)})
	}
	body := f.Envelope.Apply(make([]byte, 0, f.Bytes+128), rt.Target.Model(), more...)
	x, err := c.dispatch(ctx, call{
		pool: rt.Target, tier: Target, path: f.Path, body: body, header: f.Header, spans: f.Spans, raw: true,
		turn:   Turn{Route: rt.Model, Pool: rt.Target.Name(), Tenant: f.Tenant, Class: f.Class, Tokens: openai.EstimateTokens(f.Bytes)},
		demand: pool.Demand{PromptBytes: f.Bytes, Whole: true},
		chunk:  cfg.Timeouts.Chunk, // no first-byte deadline: an answer that is not streamed comes all at once
	}, cfg, rc)
	if err != nil {
		return rc, err
	}
	defer x.drop()
	rc.Tier = Target
	rc.First = c.now().Sub(rc.Began)
	rc.Target = rc.First
	return rc, x.pass(sink, rc)
}

// pass copies a raw answer, one write for each read.
func (x *exchange) pass(sink Sink, rc *Receipt) error {
	head := Head{Receipt: rc, ContentType: x.resp.Header.Get("Content-Type"), Length: x.resp.ContentLength}
	err := sink.Begin(head)
	buf := x.whole
	for err == nil {
		if len(buf) > 0 {
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
			f := x.failure(rerr)
			x.close(f, 0)
			return &BrokenError{f}
		}
	}
	x.close(nil, 0)
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
