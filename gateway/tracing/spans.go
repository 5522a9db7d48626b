package tracing

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
)

// Attributes that the conventions do not have.
const (
	keyTenant     = attribute.Key("foregate.tenant")
	keyPriority   = attribute.Key("foregate.priority")
	keyRequest    = attribute.Key("foregate.request_id")
	keyClient     = attribute.Key("foregate.client_request_id")
	keyCache      = attribute.Key("foregate.cache") // cache result, as in the access record
	keyLimits     = attribute.Key("foregate.limits_s")
	keyTier       = attribute.Key("foregate.tier")       // source of the answer
	keyMode       = attribute.Key("foregate.mode")       // how drafts were judged
	keyAcceptance = attribute.Key("foregate.acceptance") // as in X-Acceptance
	keyDrafted    = attribute.Key("foregate.tokens.drafted")
	keyAccepted   = attribute.Key("foregate.tokens.accepted")
	keyWasted     = attribute.Key("foregate.tokens.wasted")
	keyUSD        = attribute.Key("foregate.usd")
	keyRole       = attribute.Key("foregate.role") // draft, target, score, tokenize
	keyPool       = attribute.Key("foregate.pool")
	keyBackend    = attribute.Key("foregate.backend")
	keyTarget     = attribute.Key("foregate.target_pool")   // of the conversation, on routes with several targets
	keyDiverted   = attribute.Key("foregate.diverted_from") // the target pool that took no requests
	keyTruncated  = attribute.Key("foregate.truncated")     // some content is missing

	keyAccept    = attribute.Key("accept")
	keyReason    = attribute.Key("reason")
	keyScore     = attribute.Key("score")     // nats
	keyThreshold = attribute.Key("threshold") // nats
	keyTokens    = attribute.Key("tokens")
	keyKept      = attribute.Key("kept")
)

const (
	eventVerdict  = "foregate.verdict"
	eventCheck    = "foregate.check"
	eventTakeover = "foregate.takeover"
)

// statusGone and statusBroken are the access record's codes that are no HTTP status.
const (
	statusGone   = 499
	statusBroken = 597
)

// operations are the conventions' names of paths. Other paths have none.
var operations = map[string]attribute.KeyValue{
	"/v1/chat/completions": semconv.GenAIOperationNameChat,
	"/v1/responses":        semconv.GenAIOperationNameChat,
	"/v1/messages":         semconv.GenAIOperationNameChat,
	"/v1/completions":      semconv.GenAIOperationNameTextCompletion,
	"/v1/embeddings":       semconv.GenAIOperationNameEmbeddings,
}

// provider is the maker of the tokens. The conventions have no name for self-hosted engines; this is the API
// that the gateway speaks to them.
var provider = semconv.GenAIProviderNameKey.String("vllm")

// span is a span as the exporter takes it.
type span = tracetest.SpanStub

// build makes the spans of a request.
func (t *Tracer) build(at *receipts.Trace, d *receipts.Receipt) []sdk.ReadOnlySpan {
	state, _ := trace.ParseTraceState(at.State) // it was parsed before
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: at.ID, TraceFlags: trace.TraceFlags(at.Flags) | trace.FlagsSampled, TraceState: state})
	b := builder{summary: d, model: t.model, op: operations[d.Path], common: span{SpanContext: own, Resource: t.resource, InstrumentationScope: t.scope}}
	if parent := trace.SpanID(at.Parent); parent.IsValid() {
		b.common.Parent = own.WithSpanID(parent).WithRemote(true)
	}
	name := d.Path
	if b.op.Valid() {
		name = b.op.Value.AsString()
	}
	b.request = b.start(titleCase(name, d.Route), at.Span, trace.SpanKindServer, 0)
	b.common.Parent = b.request.SpanContext
	b.describe()
	b.content()
	b.lookup()
	if d.Cascade != nil {
		b.began = d.Cascade.Began.Sub(d.Time)
		b.answer(d.Cascade)
	}
	b.status()
	b.end(b.request, d.Took)
	return b.ended.Snapshots()
}

// builder makes the spans of one request. Times count from its arrival.
type builder struct {
	summary *receipts.Receipt
	model   func(pool string) string
	op      attribute.KeyValue // zero if the conventions have no name
	common  span               // what the next span has of its trace
	request *span
	began   time.Duration // start of the cascade
	ended   tracetest.SpanStubs
}

// start begins a span. Calls to engines have an id, which they were told; other spans get a new one.
func (b *builder) start(name string, id trace.SpanID, kind trace.SpanKind, at time.Duration) *span {
	if !id.IsValid() {
		id = newSpan()
	}
	s := b.common
	s.Name, s.SpanContext, s.SpanKind, s.StartTime = name, s.SpanContext.WithSpanID(id), kind, b.summary.Time.Add(at)
	return &s
}

// end ends a span, at the latest with its request.
func (b *builder) end(s *span, at time.Duration) {
	s.EndTime = b.summary.Time.Add(min(at, b.summary.Took))
	b.ended = append(b.ended, *s)
}

func (b *builder) event(s *span, name string, at time.Duration, about ...attribute.KeyValue) {
	s.Events = append(s.Events, sdk.Event{Name: name, Attributes: about, Time: b.summary.Time.Add(min(b.began+at, b.summary.Took))})
}

// set adds attributes to a span; texts that are "" are left out.
func set(s *span, about ...attribute.KeyValue) {
	for _, a := range about {
		if a.Valid() && (a.Value.Type() != attribute.STRING || a.Value.AsString() != "") {
			s.Attributes = append(s.Attributes, a)
		}
	}
}

// failed gives a span the status of an error; why may be "".
func failed(s *span, why string) { s.Status = sdk.Status{Code: codes.Error, Description: why} }

// titleCase is a span's name in the conventions: operation and model.
func titleCase(what, model string) string {
	if model == "" {
		return what
	}
	return what + " " + model
}

// describe sets the attributes of the request and its result.
func (b *builder) describe() {
	d := b.summary
	set(b.request, semconv.HTTPRequestMethodPost, semconv.URLPath(d.Path), semconv.HTTPRoute(d.Path), provider,
		keyRequest.String(d.ID), keyPriority.String(d.Priority), keyClient.String(d.Client), b.op)
	if d.Route != "" {
		set(b.request, semconv.GenAIRequestModel(d.Route), semconv.GenAIRequestStream(d.Stream))
	}
	set(b.request, keyTenant.String(d.Tenant), keyTarget.String(d.TargetPool), keyDiverted.String(d.DivertedFrom), keyCache.String(d.Cache))
	if d.Limits > 0 {
		set(b.request, keyLimits.Float64(d.Limits.Seconds()))
	}
	if d.Tier != "" {
		set(b.request, keyTier.String(d.Tier),
			semconv.GenAIUsageInputTokens(d.Tokens.Prompt), semconv.GenAIUsageOutputTokens(d.Tokens.Accepted+d.Tokens.Target))
	}
	set(b.request, semconv.GenAIResponseModel(d.Model))
	if d.Finish != "" {
		set(b.request, semconv.GenAIResponseFinishReasons(d.Finish))
	}
}

// content sets the messages and the answer, where the tenant opted in. They are JSON, as the conventions want it where spans
// have no structured values.
func (b *builder) content() {
	c := b.summary.Content
	if c == nil {
		return
	}
	set(b.request, semconv.GenAIInputMessagesKey.String(c.Input), semconv.GenAIOutputMessagesKey.String(c.Output))
	if c.Truncated {
		set(b.request, keyTruncated.Bool(true))
	}
}

// status sets the span's status. A request that cannot be answered is the client's error, not the gateway's;
// a refusal for lack of capacity, or because of a limit, is an error.
func (b *builder) status() {
	d := b.summary
	switch d.Code {
	case statusGone: // no status was sent, or the client left
	case statusBroken:
		set(b.request, semconv.HTTPResponseStatusCode(200))
	default:
		set(b.request, semconv.HTTPResponseStatusCode(d.Code))
	}
	set(b.request, semconv.ErrorTypeKey.String(d.Error))
	if d.Code >= 500 || d.Code == 429 {
		failed(b.request, d.Error)
	}
}

// lookup makes the span of the cache look-up in Redis.
func (b *builder) lookup() {
	d := b.summary
	if d.Lookup == 0 {
		return
	}
	at := d.LookedUpAt.Sub(d.Time)
	s := b.start("cache lookup", trace.SpanID{}, trace.SpanKindClient, at)
	set(s, semconv.DBSystemNameRedis, keyCache.String(d.Cache))
	b.end(s, at+d.Lookup)
}

// answer makes the spans of the cascade.
func (b *builder) answer(rc *tiers.Receipt) {
	set(b.request, keyAcceptance.String(rc.Acceptance()), keyUSD.Float64(rc.USD))
	if rc.First > 0 && b.summary.Stream {
		set(b.request, semconv.GenAIResponseTimeToFirstChunk((b.began + rc.First).Seconds()))
	}
	if rc.Decision.Judged {
		set(b.request, keyMode.String(string(rc.Decision.Mode)),
			keyDrafted.Int(rc.DraftedTokens), keyAccepted.Int(rc.AcceptedTokens), keyWasted.Int(rc.WastedTokens))
	}
	spans := b.tries(rc)
	b.verdict(rc, spans)
	b.checks(rc, spans)
	for _, o := range rc.Failovers {
		b.event(b.request, eventTakeover, o.At, keyReason.String(o.Why), keyTokens.Int(o.Tokens))
	}
	for i, s := range spans {
		b.end(s, b.began+rc.Tries[i].At+rc.Tries[i].Took)
	}
}

// tries makes the spans of upstream calls and of the wait before each. They are not ended yet.
func (b *builder) tries(rc *tiers.Receipt) []*span {
	left := rc.Waited // waits without a call
	spans := make([]*span, len(rc.Tries))
	for i := range rc.Tries {
		try := &rc.Tries[i]
		left -= try.Waited
		if try.Waited > 0 {
			b.wait(try.Pool, b.began+try.At-try.Waited, try.Waited)
		}
		spans[i] = b.try(try)
	}
	if left > 0 && b.summary.Error != "" { // it was refused
		b.wait("", max(b.summary.Took-left, 0), left)
	}
	return spans
}

// wait makes the span of a wait in a pool's queue; pool "" means that the request was refused there.
func (b *builder) wait(pool string, at, long time.Duration) {
	s := b.start("queue", trace.SpanID{}, trace.SpanKindInternal, at)
	if pool != "" {
		set(s, keyPool.String(pool))
	} else {
		failed(s, b.summary.Error)
	}
	b.end(s, at+long)
}

func (b *builder) try(try *dispatch.Try) *span {
	model, name, op, tokens := b.model(try.Pool), string(try.Role), semconv.GenAIOperationNameKey.String(string(try.Role)), 0
	if try.Role == dispatch.RoleDraft || try.Role == dispatch.RoleTarget {
		name, op, tokens = cmp.Or(b.op.Value.String(), b.summary.Path), b.op, try.Tokens
	}
	s := b.start(titleCase(name, model), try.Span, trace.SpanKindClient, b.began+try.At)
	set(s, provider, keyRole.String(string(try.Role)), keyPool.String(try.Pool), keyBackend.String(try.Backend), op)
	if tokens > 0 {
		set(s, semconv.GenAIUsageOutputTokens(tokens))
	}
	set(s, semconv.GenAIRequestModel(model))
	if try.First > 0 {
		set(s, semconv.GenAIResponseTimeToFirstChunk(try.First.Seconds()))
	}
	if try.Status > 0 {
		set(s, semconv.HTTPResponseStatusCode(try.Status))
	}
	set(s, server(try.URL)...)
	if why := cmp.Or(try.Failed, try.Broke); why != "" {
		set(s, semconv.ErrorTypeKey.String(string(why)))
		failed(s, "")
	}
	return s
}

// server is a backend's address.
func server(base string) []attribute.KeyValue {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = usualPorts[u.Scheme]
	}
	return []attribute.KeyValue{semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port)}
}

var usualPorts = map[string]int{"http": 80, "https": 443}

// verdict adds the verdict on the draft to the span of the last draft call.
func (b *builder) verdict(rc *tiers.Receipt, spans []*span) {
	v := rc.Verdict
	if v.Reason == "" {
		return
	}
	at := b.request
	for i := range slices.Backward(spans) {
		if rc.Tries[i].Role == dispatch.RoleDraft {
			at = spans[i]
			break
		}
	}
	b.event(at, eventVerdict, rc.Judged, keyAccept.Bool(v.Accept), keyReason.String(v.Reason),
		keyScore.Float64(float64(v.Score)), keyThreshold.Float64(float64(rc.Decision.Accept.Threshold)), keyTokens.Int(v.Tokens))
}

// checks adds each check of the draft to the span of its call.
func (b *builder) checks(rc *tiers.Receipt, spans []*span) {
	for _, c := range rc.Checks {
		at := b.request
		for i, t := range rc.Tries {
			if t.Role == dispatch.RoleScore && t.At >= c.At && t.At <= c.At+c.Took {
				at = spans[i]
			}
		}
		b.event(at, eventCheck, c.At+c.Took, keyAccept.Bool(c.Pass), keyReason.String(c.Reason),
			keyScore.Float64(float64(c.Score)), keyTokens.Int(c.Tokens), keyKept.Int(c.Kept))
	}
}
