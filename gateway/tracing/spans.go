package tracing

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/receipt"
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

// build makes the spans of a request.
func (t *Tracer) build(at *receipts.Trace, d *receipts.Receipt) {
	ctx := context.Background()
	if parent := trace.SpanID(at.Parent); parent.IsValid() {
		state, _ := trace.ParseTraceState(at.State) // it was parsed before
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: at.ID, SpanID: parent, TraceFlags: trace.TraceFlags(at.Flags), TraceState: state, Remote: true,
		}))
	}
	op, known := operations[d.Path]
	name := d.Path
	if known {
		name = op.Value.AsString()
	}
	b := builder{Tracer: t, summary: d, id: at.ID, op: op}
	ctx, b.request = b.start(ctx, titleCase(name, d.Route), at.Span, trace.SpanKindServer, 0)
	b.describe()
	b.content()
	b.lookup(ctx)
	if d.Cascade != nil {
		b.began = d.Cascade.Began.Sub(d.Time)
		b.answer(ctx, d.Cascade)
	}
	b.status()
	b.end(b.request, d.Took)
}

// builder makes the spans of one request. Times count from its arrival.
type builder struct {
	*Tracer
	summary *receipts.Receipt
	id      trace.TraceID
	op      attribute.KeyValue // zero if the conventions have no name
	request trace.Span
	began   time.Duration // start of the cascade
}

func (b *builder) start(ctx context.Context, name string, id trace.SpanID, kind trace.SpanKind, at time.Duration) (context.Context, trace.Span) {
	return b.tracer.Start(with(ctx, b.id, id), name, trace.WithSpanKind(kind), trace.WithTimestamp(b.summary.Time.Add(at)))
}

// end ends a span, at the latest with its request.
func (b *builder) end(s trace.Span, at time.Duration) {
	s.End(trace.WithTimestamp(b.summary.Time.Add(min(at, b.summary.Took))))
}

func (b *builder) event(s trace.Span, name string, at time.Duration, about ...attribute.KeyValue) {
	s.AddEvent(name, trace.WithTimestamp(b.summary.Time.Add(min(b.began+at, b.summary.Took))), trace.WithAttributes(about...))
}

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
	about := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost, semconv.URLPath(d.Path), semconv.HTTPRoute(d.Path), provider,
		keyRequest.String(d.ID), keyPriority.String(d.Priority),
	}
	if d.Client != "" {
		about = append(about, keyClient.String(d.Client))
	}
	if b.op.Valid() {
		about = append(about, b.op)
	}
	if d.Route != "" {
		about = append(about, semconv.GenAIRequestModel(d.Route), semconv.GenAIRequestStream(d.Stream))
	}
	if d.Tenant != "" {
		about = append(about, keyTenant.String(d.Tenant))
	}
	if d.TargetPool != "" {
		about = append(about, keyTarget.String(d.TargetPool))
	}
	if d.DivertedFrom != "" {
		about = append(about, keyDiverted.String(d.DivertedFrom))
	}
	if d.Cache != "" {
		about = append(about, keyCache.String(d.Cache))
	}
	if d.Limits > 0 {
		about = append(about, keyLimits.Float64(d.Limits.Seconds()))
	}
	if d.Tier != "" {
		about = append(about, keyTier.String(d.Tier),
			semconv.GenAIUsageInputTokens(d.Tokens.Prompt), semconv.GenAIUsageOutputTokens(d.Tokens.Accepted+d.Tokens.Target))
	}
	if d.Model != "" {
		about = append(about, semconv.GenAIResponseModel(d.Model))
	}
	if d.Finish != "" {
		about = append(about, semconv.GenAIResponseFinishReasons(d.Finish))
	}
	b.request.SetAttributes(about...)
}

// content sets the messages and the answer, where the tenant opted in. They are JSON, as the conventions want it where spans
// have no structured values.
func (b *builder) content() {
	c := b.summary.Content
	if c == nil {
		return
	}
	about := []attribute.KeyValue{semconv.GenAIInputMessagesKey.String(c.Input)}
	if c.Output != "" {
		about = append(about, semconv.GenAIOutputMessagesKey.String(c.Output))
	}
	if c.Truncated {
		about = append(about, keyTruncated.Bool(true))
	}
	b.request.SetAttributes(about...)
}

// status sets the span's status. A request that cannot be answered is the client's error, not the gateway's;
// a refusal for lack of capacity, or because of a limit, is an error.
func (b *builder) status() {
	d := b.summary
	switch d.Code {
	case statusGone: // no status was sent, or the client left
	case statusBroken:
		b.request.SetAttributes(semconv.HTTPResponseStatusCode(200))
	default:
		b.request.SetAttributes(semconv.HTTPResponseStatusCode(d.Code))
	}
	if d.Error != "" {
		b.request.SetAttributes(semconv.ErrorTypeKey.String(d.Error))
	}
	if d.Code >= 500 || d.Code == 429 {
		b.request.SetStatus(codes.Error, d.Error)
	}
}

// lookup makes the span of the cache look-up in Redis.
func (b *builder) lookup(ctx context.Context) {
	d := b.summary
	if d.Lookup == 0 {
		return
	}
	at := d.LookedUpAt.Sub(d.Time)
	_, s := b.start(ctx, "cache lookup", trace.SpanID{}, trace.SpanKindClient, at)
	s.SetAttributes(semconv.DBSystemNameRedis, keyCache.String(d.Cache))
	b.end(s, at+d.Lookup)
}

// answer makes the spans of the cascade.
func (b *builder) answer(ctx context.Context, rc *receipt.Receipt) {
	about := []attribute.KeyValue{keyAcceptance.String(rc.Acceptance()), keyUSD.Float64(rc.USD)}
	if rc.First > 0 && b.summary.Stream {
		about = append(about, semconv.GenAIResponseTimeToFirstChunk((b.began + rc.First).Seconds()))
	}
	if rc.Plan.Judged {
		about = append(about, keyMode.String(string(rc.Plan.Mode)),
			keyDrafted.Int(rc.DraftedTokens), keyAccepted.Int(rc.AcceptedTokens), keyWasted.Int(rc.WastedTokens))
	}
	b.request.SetAttributes(about...)
	spans := b.tries(ctx, rc)
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
func (b *builder) tries(ctx context.Context, rc *receipt.Receipt) []trace.Span {
	left := rc.Waited // waits without a call
	spans := make([]trace.Span, len(rc.Tries))
	for i := range rc.Tries {
		try := &rc.Tries[i]
		left -= try.Waited
		if try.Waited > 0 {
			b.wait(ctx, try.Pool, b.began+try.At-try.Waited, try.Waited)
		}
		spans[i] = b.try(ctx, try)
	}
	if left > 0 && b.summary.Error != "" { // it was refused
		b.wait(ctx, "", max(b.summary.Took-left, 0), left)
	}
	return spans
}

// wait makes the span of a wait in a pool's queue; pool "" means that the request was refused there.
func (b *builder) wait(ctx context.Context, pool string, at, long time.Duration) {
	_, s := b.start(ctx, "queue", trace.SpanID{}, trace.SpanKindInternal, at)
	if pool != "" {
		s.SetAttributes(keyPool.String(pool))
	} else {
		s.SetStatus(codes.Error, b.summary.Error)
	}
	b.end(s, at+long)
}

func (b *builder) try(ctx context.Context, try *dispatch.Try) trace.Span {
	model := b.model(try.Pool)
	about := []attribute.KeyValue{provider, keyRole.String(string(try.Role)), keyPool.String(try.Pool), keyBackend.String(try.Backend)}
	name := string(try.Role)
	if made := try.Role == dispatch.RoleDraft || try.Role == dispatch.RoleTarget; made {
		if b.op.Valid() {
			name = b.op.Value.AsString()
			about = append(about, b.op)
		} else {
			name = b.summary.Path
		}
		if try.Tokens > 0 {
			about = append(about, semconv.GenAIUsageOutputTokens(try.Tokens))
		}
	} else {
		about = append(about, semconv.GenAIOperationNameKey.String(name))
	}
	if model != "" {
		about = append(about, semconv.GenAIRequestModel(model))
	}
	if try.First > 0 {
		about = append(about, semconv.GenAIResponseTimeToFirstChunk(try.First.Seconds()))
	}
	if try.Status > 0 {
		about = append(about, semconv.HTTPResponseStatusCode(try.Status))
	}
	_, s := b.start(ctx, titleCase(name, model), try.Span, trace.SpanKindClient, b.began+try.At)
	s.SetAttributes(append(about, server(try.URL)...)...)
	why := try.Failed
	if why == "" {
		why = try.Broke
	}
	if why != "" {
		s.SetAttributes(semconv.ErrorTypeKey.String(string(why)))
		s.SetStatus(codes.Error, "")
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
func (b *builder) verdict(rc *receipt.Receipt, spans []trace.Span) {
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
		keyScore.Float64(float64(v.Score)), keyThreshold.Float64(float64(rc.Needed)), keyTokens.Int(v.Tokens))
}

// checks adds each check of the draft to the span of its call.
func (b *builder) checks(rc *receipt.Receipt, spans []trace.Span) {
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
