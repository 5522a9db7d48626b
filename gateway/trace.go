package gateway

import (
	"encoding/hex"
	"net/http"
	"time"

	"github.com/foregate/foregate/gateway/content"
	"github.com/foregate/foregate/tiers/receipt"
)

// Tracer traces generations and forwarded requests. Neither method may block.
type Tracer interface {
	// Begin chooses the trace of a request by its headers, and whether it is recorded.
	Begin(h http.Header) *Trace
	// End receives the summary of a finished request whose trace is recorded.
	End(t *Trace, d *RequestSummary)
}

// Trace is a request's position in a trace, as in the W3C's trace context.
type Trace struct {
	ID     [16]byte
	Span   [8]byte // the request's own; each upstream call is a child of it
	Parent [8]byte // of the request's sender; zero: none
	Flags  byte    // the lowest bit is set if the trace is recorded
	State  string  // tracestate, "" is none
}

// RequestSummary describes a finished request. It is immutable. It never holds keys, and text only where the tenant opted in.
type RequestSummary struct {
	ID         string // the gateway's own
	Client     string // X-Request-ID as the client sent it, "" for none
	Tenant     string // "" where it was not found out
	Priority   string
	Path       string
	Route      string // model, "" where it named none of ours
	Stream     bool
	Began      time.Time
	Duration   time.Duration
	Code       int           // HTTP status; 499: the client left; 597: broken off after its first byte
	Problem    string        // code of the error, "" for none
	Cache      string        // what came of the cache, "" where it was not asked
	LookedUpAt time.Time     // start of the cache look-up in Redis
	Lookup     time.Duration // its duration; 0: there was none
	Limits     time.Duration // spent on the tenant's limits

	TargetPool   string // of the variant that answers; "" on routes without variants
	DivertedFrom string // target pool of the variant that was passed over, "" for none

	Receipt      *receipt.Receipt // nil if the cascade was not called
	Tier         string           // that the answer came from, "" where there is none
	Finish       string
	PromptTokens int    // tokens
	AnswerTokens int    // tokens
	Model        string // of the pool that wrote the answer, "" if it is not known

	Content *content.Content // nil unless the tenant opted in
}

// trace begins the trace of a request. Only a caller who was identified may say by its headers whether it is recorded: for
// others h is nil.
func (g *Gateway) trace(l *accessRecord, h http.Header) {
	if g.opts.Tracer != nil {
		l.trace = g.opts.Tracer.Begin(h)
	}
}

// recorded reports whether upstream calls get spans, and End is called.
func (t *Trace) recorded() bool { return t != nil && t.Flags&1 != 0 }

// record has the trace recorded, whatever was decided before.
func (t *Trace) record() { t.Flags |= 1 }

// tell sets traceparent for an upstream call.
func (t *Trace) tell(h http.Header) {
	b := append(make([]byte, 0, 55), "00-"...)
	b = append(hex.AppendEncode(b, t.ID[:]), '-')
	b = append(hex.AppendEncode(b, t.Span[:]), '-')
	h["Traceparent"] = []string{string(hex.AppendEncode(b, []byte{t.Flags}))}
	if t.State != "" {
		h["Tracestate"] = []string{t.State}
	}
}

// summaryOf builds the summary of a finished request.
func summaryOf(l *accessRecord, r *http.Request, took time.Duration) *RequestSummary {
	f := receiptOf(l, took)
	d := &RequestSummary{
		ID: f.id, Client: f.client, Tenant: f.tenant, Priority: f.class.String(), Path: r.URL.Path, Route: f.route, Stream: l.out != nil && l.out.stream,
		Began: f.time, Duration: took, Code: f.code, Problem: f.problem, Cache: string(f.cache),
		LookedUpAt: l.LookedUpAt, Lookup: f.lookup, Limits: f.limits,
		TargetPool: f.target, DivertedFrom: f.diverted,
		Receipt: f.receipt, Tier: f.cached.tier, Finish: f.cached.finish, PromptTokens: f.cached.prompt, AnswerTokens: f.cached.accepted + f.cached.target,
	}
	if rc := f.receipt; rc != nil {
		d.Tier, d.Finish, d.PromptTokens, d.AnswerTokens = string(rc.Tier), rc.Finish, rc.PromptTokens, rc.AcceptedTokens+rc.TargetTokens
	}
	d.Model = modelOf(l.answering, d)
	return d
}
