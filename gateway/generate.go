package gateway

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// handler answers a request or returns an error, which the error table maps to a status.
type handler func(l *accessRecord, w http.ResponseWriter, r *http.Request) error

func (g *Gateway) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l, _ := r.Context().Value(accessRecordKey{}).(*accessRecord) // [Gateway.front] has put it there
		if err := h(l, w, r); err != nil {
			g.fail(w, r, l, err)
		}
	}
}

// admittedRequest is a request whose body was read.
type admittedRequest struct {
	body        []byte // charged until leave, or as long as the reservation is retained
	reservation *body  // its memory and place
	releaseSlot func() // of a large body
}

// leave releases everything that the request holds; the handler calls it at the end.
func (a *admittedRequest) leave() {
	a.reservation.release()
	a.releaseSlot()
}

// enter does everything before the actual work: identity, slots, body.
func (g *Gateway) enter(l *accessRecord, w http.ResponseWriter, r *http.Request) (a admittedRequest, err error) {
	if l.Caller, err = g.opts.Identity.Identify(r); err != nil {
		g.beginTrace(l, nil)
		return a, err
	}
	g.beginTrace(l, r.Header)
	if l.trace != nil && l.Caller.Access.TraceContent {
		l.trace.Record()
	}
	l.Retry = isRetry(r.Header)
	if err := g.checkBody(w, r); err != nil {
		return a, err
	}
	if a.releaseSlot, err = g.acquireSlot(l, r); err != nil {
		return a, err
	}
	if a.reservation, err = g.bodies.begin(l.Caller.Tenant, r.ContentLength); err != nil {
		a.releaseSlot()
		return a, err
	}
	defer func() {
		if !l.bodyRead { // it was refused, or it panicked
			a.leave()
		}
	}()
	reader := bodyReader{g.opts.Limits.Body, g.opts.Settings.Snapshot().Global().Client.Body, a.reservation.charge}
	if a.body, err = reader.take(w, r); err != nil {
		return a, err
	}
	_ = r.Body.Close() // it was read to its end; otherwise the server looks for more of it
	l.Header, l.Spans = upstreamHeader(l, r), l.trace.Recorded()
	l.bodyRead = true
	return a, nil
}

// admittedHandler is a handler of requests whose body was read.
type admittedHandler func(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error

// admit is the handler that reads the body.
func (g *Gateway) admit(h admittedHandler) handler {
	return func(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		in, err := g.enter(l, w, r)
		if err != nil {
			return err
		}
		defer in.leave()
		return h(&in, l, w, r)
	}
}

// generate answers chat completions and completions through the cascade.
func (g *Gateway) generate(kind openai.Kind) handler {
	return g.admit(func(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		return g.answer(clientBody{kind, in.body, g.opts.Scan, nil}, in, l, w, r)
	})
}

// clientBody is a body for the cascade, and the limits that hold for it.
type clientBody struct {
	kind        openai.Kind
	raw         []byte
	limits      openai.Limits
	translation *clientapi.Request // that it came from; nil: it is the client's own
}

// answer lets the cascade answer a request of any API. Where its tenant opted in, its content goes to its trace.
func (g *Gateway) answer(from clientBody, in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	asked, err := g.scan(from, l, r)
	if err != nil {
		return err
	}
	asked.Retain = in.reservation.Retain
	to, before := g.open(l, w, r, asked.Body.Stream), in.reservation.bytes
	to.room = in.reservation
	defer func() { _ = in.reservation.charge(before) }() // less is never refused
	if t := from.translation; t != nil {
		to.encoder, to.endsLate = t.NewEncoder(l.ID, g.opts.Cascade.MaxBody), t.Stored
	}
	if l.trace.Recorded() && l.Caller.Access.TraceContent {
		l.content = receipts.NewContent(asked.Body.Kind)
		asked.Observe = l.content.Observe
		defer l.content.Ask(asked.Body)
	}
	if err := g.pipeline.Answer(r.Context(), asked, to, &l.Record); err != nil {
		return err
	}
	return to.finish()
}

// scan reads a request to the cascade: its headers and its body.
func (g *Gateway) scan(from clientBody, l *accessRecord, r *http.Request) (asked tiers.Arrival, err error) {
	demand, err := readDemand(r.Header)
	if err != nil {
		return asked, err
	}
	body, err := openai.Scan(from.kind, from.raw, from.limits)
	switch {
	case err != nil && from.translation != nil:
		return asked, withoutOffset(err)
	case err != nil:
		return asked, err
	}
	route, err := g.routeFor(&l.Caller, body.Model)
	if err != nil {
		return asked, err
	}
	l.route = body.Model
	if len(route.Variants) > 0 {
		route = g.assign(route, l, body)
	}
	l.answering = route
	return tiers.Arrival{
		Metadata: &l.Metadata, Body: body, Route: route, Demand: demand, CacheControl: readCacheControl(r.Header),
	}, nil
}

// assign returns the variant of a route that answers a request.
func (g *Gateway) assign(route *tiers.Route, l *accessRecord, body *openai.Request) *tiers.Route {
	chosen, diverted := route.Assign(tiers.Conversation(l.Caller.Tenant, body))
	if diverted != nil {
		l.diverted = diverted.Target.Name()
		g.metrics.diverted.WithLabelValues(route.Model, l.diverted).Inc()
	}
	l.variant = chosen
	return chosen
}

// forward passes an allowed path through to the target pool.
func (g *Gateway) forward(path string) handler {
	return g.admit(func(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		asked, err := openai.Peek(path, in.body, g.opts.Scan)
		if err != nil {
			return err
		}
		return g.forwardBody(path, asked, l, w, r)
	})
}

// forwardBody passes a request that was read through to the target pool, on a route with variants that of the incumbent:
// embeddings of two models cannot be mixed, and state that an engine keeps is in one pool.
func (g *Gateway) forwardBody(path string, asked *openai.Request, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	route, err := g.routeFor(&l.Caller, asked.Model)
	if err != nil {
		return err
	}
	if route.Target.External() {
		return errOutside // what it would tell the provider, and cost, is not known
	}
	l.route, l.answering = asked.Model, route
	return g.pipeline.Forward(r.Context(), tiers.Forward{
		Arrival: tiers.Arrival{Metadata: &l.Metadata, Body: asked, Route: route}, Path: path,
	}, g.open(l, w, r, false), &l.Record)
}

// routeFor returns the route of a model. A model that the tenant may not use is refused in the same way whether a route has
// it or not. One with a hosted target is only for tenants whose requests may leave.
func (g *Gateway) routeFor(c *identity.Caller, model string) (*tiers.Route, error) {
	route, unknown := g.opts.Cascade.Route(model)
	if err := mayUse(c, model, unknown == nil && route.Target.External()); err != nil {
		return nil, err
	}
	if unknown != nil {
		return nil, unknownModel(model)
	}
	return route, nil
}

// mayUse returns why a caller may not use a model, nil if it may. external says that a provider hosts its target.
func mayUse(c *identity.Caller, model string, external bool) error {
	switch {
	case !c.Access.Allows(model):
		return refuse("model_not_allowed", fmt.Sprintf("You may not use the model %q. GET /v1/models lists those that you may use.", clip(model))).of("model")
	case external && !c.Access.AllowExternal:
		return refuse("external_not_allowed", fmt.Sprintf("The model %q is hosted by a provider, and your tenant may not use such models (allow_external).", clip(model))).of("model")
	}
	return nil
}

// readDemand reads the headers by which a request demands something of its route. One that demands both a draft and a stricter
// mode gets the stricter mode.
func readDemand(h http.Header) (d plan.Demand, err error) {
	if d.Tier, err = oneOf(h, "X-Tier", plan.Auto, plan.Draft, plan.Target); err != nil {
		return d, err
	}
	if d.Mode, err = oneOf(h, "X-Acceptance-Mode", plan.DemandDefault, plan.DemandExact, plan.DemandTarget); err != nil {
		return d, err
	}
	if d.IsStricter() && d.Tier == plan.Draft {
		d.Tier = plan.Auto
	}
	return d, nil
}

// oneOf reads a header that has one of some values; the first one is meant where it is not sent.
func oneOf[T ~string](h http.Header, name string, values ...T) (T, error) {
	v, err := identity.Header(h, name, 16)
	switch {
	case err != nil:
		return "", err
	case v == "":
		return values[0], nil
	case !slices.Contains(values, T(v)):
		last := len(values) - 1
		return "", refuse("bad_header", fmt.Sprintf("%s must be %s or %s.", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(values[:last]), " ", ", "), "[]"), values[last]))
	}
	return T(v), nil
}

// beginTrace begins the trace of a request. Only a caller who was identified may say by its headers whether it is recorded: for
// others h is nil.
func (g *Gateway) beginTrace(l *accessRecord, h http.Header) {
	if g.opts.Tracer != nil {
		l.trace = g.opts.Tracer.Begin(h)
	}
}

// upstreamHeader returns the client's headers that go to backends: only a well-formed traceparent. The
// gateway assigns the call ids itself.
func upstreamHeader(l *accessRecord, r *http.Request) http.Header {
	if l.trace != nil {
		h := http.Header{"Traceparent": {l.trace.Parentage()}}
		if l.trace.State != "" {
			h["Tracestate"] = []string{l.trace.State}
		}
		return h
	}
	if t := r.Header.Get("Traceparent"); traceparent.MatchString(t) {
		return http.Header{"Traceparent": {t}}
	}
	return nil
}

// traceparent is the form of the W3C's trace context, version 00.
var traceparent = regexp.MustCompile("^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")

// clientLeft reports whether the request's client has disconnected.
func clientLeft(ctx context.Context) bool {
	return ctx.Err() != nil && context.Cause(ctx) != errDraining
}
