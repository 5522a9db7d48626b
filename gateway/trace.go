package gateway

import (
	"encoding/hex"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/receipt"
)

// Tracer follows generations, and what is passed through, from service to service. Neither
// function may wait for anybody.
type Tracer interface {
	// Begin decides which trace a request belongs to, by the headers that it came with, and
	// whether it is recorded.
	Begin(h http.Header) *Trace
	// End is told of a request that is over, where its trace is recorded.
	End(t *Trace, d *RequestSummary)
}

// Trace is a request's place in a trace, by the W3C's trace context.
type Trace struct {
	ID     [16]byte
	Span   [8]byte // the request's own; each call upstream has one below it
	Parent [8]byte // of whoever sent the request; zero is nobody
	Flags  byte    // its lowest bit is set where the trace is recorded
	State  string  // tracestate, "" is none
}

// RequestSummary is what is told of a request that is over. It is not changed any more, and holds
// neither text nor keys.
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
	LookedUpAt time.Time     // when a kept answer was looked for in Redis
	Lookup     time.Duration // that took so long; 0: it was not
	Limits     time.Duration // spent on the tenant's limits

	Receipt      *receipt.Receipt // nil where the cascade had no part in it
	Tier         string           // that the answer came from, "" where there is none
	Finish       string
	PromptTokens int // tokens
	AnswerTokens int // tokens
}

// trace begins the trace of a request.
func (g *Gateway) trace(l *accessRecord, r *http.Request) {
	if g.opts.Tracer != nil {
		l.trace = g.opts.Tracer.Begin(r.Header)
	}
}

// recorded reports whether calls upstream are spans, and the request is told at its end.
func (t *Trace) recorded() bool { return t != nil && t.Flags&1 != 0 }

// tell says upstream whose child a call is.
func (t *Trace) tell(h http.Header) {
	b := append(make([]byte, 0, 55), "00-"...)
	b = append(hex.AppendEncode(b, t.ID[:]), '-')
	b = append(hex.AppendEncode(b, t.Span[:]), '-')
	h["Traceparent"] = []string{string(hex.AppendEncode(b, []byte{t.Flags}))}
	if t.State != "" {
		h["Tracestate"] = []string{t.State}
	}
}

// summaryOf is what is told of a request that is over.
func summaryOf(l *accessRecord, r *http.Request, took time.Duration) *RequestSummary {
	f := receiptOf(l, took)
	d := &RequestSummary{
		ID: f.id, Client: f.client, Tenant: f.tenant, Priority: f.class.String(), Path: r.URL.Path, Route: f.route, Stream: l.out != nil && l.out.stream,
		Began: f.time, Duration: took, Code: f.code, Problem: f.problem, Cache: string(f.cache),
		LookedUpAt: l.LookedUpAt, Lookup: f.lookup, Limits: f.limits,
		Receipt: f.receipt, Tier: f.cached.tier, Finish: f.cached.finish, PromptTokens: f.cached.prompt, AnswerTokens: f.cached.accepted + f.cached.target,
	}
	if rc := f.receipt; rc != nil {
		d.Tier, d.Finish, d.PromptTokens, d.AnswerTokens = string(rc.Tier), rc.Finish, rc.PromptTokens, rc.AcceptedTokens+rc.TargetTokens
	}
	return d
}
