package app_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// collector takes OTLP over HTTP.
type collector struct {
	url   string
	mu    sync.Mutex
	spans []*otlp.Span
	wire  strings.Builder // all bodies, not compressed
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Encoding") != "gzip" {
			http.Error(w, "what is that?", http.StatusBadRequest)
			return
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(z)
		var m collect.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &m) != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wire.Write(body)
		for _, resource := range m.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// trace waits for the trace of an id, and returns its spans, the first to begin first.
func (c *collector) trace(t *testing.T, id string) []*otlp.Span {
	t.Helper()
	var found []*otlp.Span
	apptest.Eventually(t, "the trace has come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = nil
		for _, s := range c.spans {
			if hex.EncodeToString(s.TraceId) == id {
				found = append(found, s)
			}
		}
		return len(found) > 0
	})
	slices.SortStableFunc(found, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano - b.StartTimeUnixNano)) })
	return found
}

// of waits for the span of a request with an id.
func (c *collector) of(t *testing.T, id string) (found *otlp.Span) {
	t.Helper()
	apptest.Eventually(t, "the span has come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if about(s.Attributes, "foregate.request_id") == id {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// called finds the spans of a name.
func called(spans []*otlp.Span, name string) (out []*otlp.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// about is an attribute's value as text, "" where there is none.
func about(all []*common.KeyValue, key string) string {
	for _, kv := range all {
		if kv.Key == key {
			switch v := kv.Value.Value.(type) {
			case *common.AnyValue_StringValue:
				return v.StringValue
			case *common.AnyValue_ArrayValue:
				return v.ArrayValue.Values[0].GetStringValue()
			default:
				return strings.SplitN(kv.Value.String(), ":", 2)[1]
			}
		}
	}
	return ""
}

// told is what a backend was told of a trace.
type traced struct{ path, traceparent, tracestate string }

// wiretap passes everything on to a simulator, and remembers what was told of traces.
type wiretap struct {
	url string
	mu  sync.Mutex
	all []traced
}

func tap(t *testing.T, to string) *wiretap {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header["Traceparent"] != nil {
			w.mu.Lock()
			w.all = append(w.all, traced{r.URL.Path, r.Header.Get("Traceparent"), r.Header.Get("Tracestate")})
			w.mu.Unlock()
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (w *wiretap) heard() []traced {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// tracedWorld is a gateway whose drafts the target checks, traced into a collector.
type tracedWorld struct {
	*apptest.Replica
	collector     *collector
	draft, target *wiretap
}

// newTracedWorld starts one. Nobody is traced but who asks for it; more are fields of the configuration.
func newTracedWorld(t *testing.T, more string) *tracedWorld {
	t.Helper()
	w := &tracedWorld{collector: newCollector(t)}
	w.draft = tap(t, vllmsim.Start(t, vllmsim.Options{Model: simDraft, Profile: "a10g-8b", Divergence: 1, Seed: simSeed, TimeScale: simScale}).URL())
	w.target = tap(t, vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: simScale}).URL())
	w.Replica = apptest.Serve(t, conf(`%spools: {small: {model: %s, backends: [%q]}, large: {model: %s, backends: [%q]}}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}, {model: plain, target: large}]
tracing: {otlp: %q, sample: 0}
%s`, withSettings(t, "redis.timeout", "1s", "speculation.mode", "verify", "economy.guard", "off", "speculation.mode@plain", "off"),
		simDraft, w.draft.url, simTarget, w.target.url, w.collector.url, more))
	w.Ready(t)
	probed(t, w.Replica, 2)
	return w
}

// mixed asks until the target has corrected a draft, and returns the id of that trace.
func mixed(t *testing.T, w *tracedWorld) (id, body string) {
	t.Helper()
	for i := range 40 {
		id = fmt.Sprintf("%032x", i+1)
		prompt := fmt.Sprintf("She asked why the sky is blue, for the %d. time", i)
		body, _ = apptest.Post(t, w.URL+chat, strings.Replace(chatBody("llama-3", `"temperature":0`, `"max_tokens":120`), `"hi"`, strconv.Quote(prompt), 1),
			"Traceparent", "00-"+id+"-"+parentID+"-01", "Tracestate", "vendor=1", "X-Priority", "high")
		if strings.Contains(body, `"tier":"mixed"`) {
			return id, body
		}
	}
	return "", ""
}

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
)

func TestOneTraceGoesFromTheClientThroughTheGatewayToDraftScoreAndTarget(t *testing.T) {
	w := newTracedWorld(t, "")
	traceID, body := mixed(t, w)
	if body == "" {
		t.Fatal("the target stood by every draft")
	}
	spans := w.collector.trace(t, traceID)
	request, drafts, scores, targets := called(spans, "chat llama-3"), called(spans, "chat "+simDraft), called(spans, "score "+simTarget), called(spans, "chat "+simTarget)
	if len(request) != 1 || len(drafts) != 1 || len(scores) != 1 || len(targets) != 1 {
		for _, s := range spans {
			t.Logf("%s %v", s.Name, s.Attributes)
		}
		t.Fatalf("%d spans of the request, %d of drafts, %d of scores, %d of the target", len(request), len(drafts), len(scores), len(targets))
	}
	root := request[0]
	if hex.EncodeToString(root.ParentSpanId) != parentID || root.Kind != otlp.Span_SPAN_KIND_SERVER || root.TraceState != "vendor=1" {
		t.Errorf("the request's span is %v", root)
	}
	// Each backend was told the id of the span that its call is, and so its own will hang below it.
	var told []traced
	told = append(append(told, w.draft.heard()...), w.target.heard()...)
	want := map[string]bool{}
	for _, s := range spans {
		if s.Kind == otlp.Span_SPAN_KIND_CLIENT && s.Name != "cache lookup" {
			want["00-"+traceID+"-"+hex.EncodeToString(s.SpanId)+"-01"] = true
		}
		if s != root && string(s.ParentSpanId) != string(root.SpanId) {
			t.Errorf("%s is not a child of the request", s.Name)
		}
	}
	for _, c := range told {
		if !strings.Contains(c.traceparent, traceID) {
			continue // of another request
		}
		if !want[c.traceparent] || c.tracestate != "vendor=1" {
			t.Errorf("%s was told %s, %q, which is no span of the trace", c.path, c.traceparent, c.tracestate)
		}
		delete(want, c.traceparent)
	}
	if len(want) > 0 {
		t.Errorf("nobody was told of %v", want)
	}
	if drafts[0].EndTimeUnixNano > scores[0].StartTimeUnixNano || scores[0].EndTimeUnixNano > targets[0].StartTimeUnixNano {
		t.Error("draft, score and target were not one after the other")
	}
	if len(called(spans, "cache lookup")) != 1 {
		t.Error("the cache was not looked into")
	}
	for _, s := range spans {
		if text := s.String(); strings.Contains(text, "She asked") {
			t.Errorf("a span tells what was asked: %s", text)
		}
	}
}

func TestAReplicaThatStopsTellsOfItsLastRequests(t *testing.T) {
	w := newTracedWorld(t, "")
	apptest.Post(t, w.URL+chat, chatBody("plain", `"max_tokens":3`), "Traceparent", sampled, "Cache-Control", "no-store")
	w.Stop(t)
	w.collector.mu.Lock()
	defer w.collector.mu.Unlock()
	if len(w.collector.spans) == 0 {
		t.Error("nothing was sent")
	}
}

// optedIn are two tenants, of whom one opted in to content on its traces.
const optedIn = "tenants: [{id: default, trace_content: true}, {id: other}]\n"

const asked = `{"model":%q,"stream":%t,"temperature":0,"max_tokens":6,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"}]}`

// askedMessages are the messages of asked on a span.
const askedMessages = `[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"Why is the sky blue?"}]}]`

// requestID sends a request, and returns the answer's request id and cache result.
func requestID(t *testing.T, r *apptest.Replica, body string, headers ...string) (id, cached string) {
	t.Helper()
	code, h, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, headers...)
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, answer)
	}
	return h.Get("X-Request-Id"), h.Get("X-Cache")
}

// TestOnlyATenantThatOptedInIsTracedWithContent lets both ask with and without a trace of their own.
func TestOnlyATenantThatOptedInIsTracedWithContent(t *testing.T) {
	w := newTracedWorld(t, optedIn)
	c, r := w.collector, w.Replica
	body := fmt.Sprintf(asked, "plain", false)
	unsampled := strings.TrimSuffix(sampled, "1") + "0"
	silent, _ := requestID(t, r, body, "X-Tenant-ID", "other")
	traced, _ := requestID(t, r, body, "X-Tenant-ID", "other", "Traceparent", sampled)
	if span := c.of(t, traced); about(span.Attributes, "gen_ai.input.messages") != "" || about(span.Attributes, "gen_ai.output.messages") != "" {
		t.Errorf("a tenant that did not opt in: %v", span.Attributes)
	}
	for _, headers := range [][]string{nil, {"Traceparent", unsampled}} { // the span is forced
		id, _ := requestID(t, r, body, headers...)
		if got := about(c.of(t, id).Attributes, "gen_ai.input.messages"); got != askedMessages {
			t.Errorf("%v: messages %q", headers, got)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if about(s.Attributes, "foregate.request_id") == silent {
			t.Errorf("a request that nobody wanted traced: %v", s)
		}
	}
}

func TestNoHeaderOfARequestIsTraced(t *testing.T) {
	const secret = "canary-4711"
	w := newTracedWorld(t, optedIn)
	c, r := w.collector, w.Replica
	id, _ := requestID(t, r, fmt.Sprintf(asked, "plain", true), "Authorization", "Bearer "+secret, "X-Api-Key", secret, "Cookie", "k="+secret, "User-Agent", secret)
	c.of(t, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wire := c.wire.String(); strings.Contains(wire, secret) || !strings.Contains(wire, "Why is the sky blue?") {
		t.Errorf("the collector got %q", wire)
	}
}
