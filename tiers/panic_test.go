package tiers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// permits counts the permits of a breaker that nobody has given back.
type permits struct {
	out    atomic.Int64
	panics bool // at the next question
}

func (p *permits) Allow(string, string, string) (dispatch.Permit, error) {
	if p.panics {
		panic("of a gate")
	}
	p.out.Add(1)
	return permit(func(error) { p.out.Add(-1) }), nil
}

// panickySink panics when the answer begins, or at its first text.
type panickySink struct{ begins bool }

func (s panickySink) Begin(ResponseHead) error {
	if s.begins {
		panic("at the beginning")
	}
	return nil
}

func (panickySink) Write([]byte) error { panic("at the first text") }

// panickyTransport panics while it sends, or when the first bytes are read.
type panickyTransport struct {
	transport http.RoundTripper
	reads     bool
}

func (p panickyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !p.reads {
		panic("of a transport")
	}
	resp, err := p.transport.RoundTrip(r)
	if err == nil {
		resp.Body = panickyBody{resp.Body}
	}
	return resp, err
}

type panickyBody struct{ io.ReadCloser }

func (panickyBody) Read([]byte) (int, error) { panic("of a body") }

// held is how many places at backends and permits of breakers are taken.
func (r *rig) held(p *permits) int {
	n := int(p.out.Load())
	for _, q := range []*pool.Pool{routeOf(r.cascade).Draft, routeOf(r.cascade).Target} {
		for _, b := range q.Snapshot() {
			n += b.InFlight
		}
	}
	return n
}

func TestAPanicOfARequestGivesBackAllThatItHeld(t *testing.T) {
	req, err := openai.Scan(openai.Chat, []byte(chat("hello", `,"stream":true,"max_tokens":40`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := openai.Scan(openai.Chat, []byte(chat("hello", `,"max_tokens":40`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	passed, err := openai.Peek("/v1/embeddings", []byte(`{"model":"m","input":"hello"}`), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	answer := func(tier plan.Tier, req *openai.Request) func(context.Context, *Cascade, Sink) error {
		return func(ctx context.Context, c *Cascade, s Sink) error {
			_, err := answerBy(ctx, c, arrival{Body: req, Tier: tier, Header: http.Header{}}, s)
			return err
		}
	}
	forward := func(ctx context.Context, c *Cascade, s Sink) error {
		_, err := forwardBy(ctx, c, "/v1/embeddings", passed, s)
		return err
	}
	for _, way := range []struct {
		name string
		ask  func(context.Context, *Cascade, Sink) error
		same bool
		mean float64 // divergence of the draft
	}{
		{"a stream of the target", answer(plan.Target, req), true, 0},
		{"a whole answer of the target", answer(plan.Target, whole), true, 0},
		{"a draft that holds", answer(plan.Auto, req), true, 0},
		{"a draft that does not", answer(plan.Auto, req), true, 0.9},
		{"a continuation by text", answer(plan.Auto, req), false, 0.9},
		{"a request that is passed on", forward, true, 0},
	} {
		for _, fault := range []struct {
			name string
			set  func(*Cascade, *permits) Sink
		}{
			{"at its beginning", func(*Cascade, *permits) Sink { return panickySink{begins: true} }},
			{"at its text", func(*Cascade, *permits) Sink { return panickySink{} }},
			{"as it is sent", func(c *Cascade, _ *permits) Sink {
				sendBy(c, panickyTransport{})
				return &collector{}
			}},
			{"as it is read", func(c *Cascade, _ *permits) Sink {
				sendBy(c, panickyTransport{http.DefaultTransport, true})
				return &collector{}
			}},
			{"at the breaker", func(_ *Cascade, p *permits) Sink {
				p.panics = true
				return &collector{}
			}},
		} {
			t.Run(way.name+", "+fault.name, func(t *testing.T) {
				r := newRig(t, 1, way.mean, way.same)
				p := &permits{}
				r.cascade.services.Dispatch.Breaker = p
				sink := fault.set(r.cascade, p)
				panicked := errors.New("panicked")
				err := func() (err error) {
					defer func() {
						if recover() != nil {
							err = panicked
						}
					}()
					return way.ask(t.Context(), r.cascade, sink)
				}()
				if !errors.Is(err, panicked) {
					t.Fatalf("no panic, but %v", err)
				}
				if n := r.held(p); n != 0 {
					t.Errorf("%d places, permits and tries are held for ever", n)
				}
			})
		}
	}
}

// permit is leave to call a backend, with what becomes of it.
type permit func(error)

func (p permit) Report(err error) { p(err) }
