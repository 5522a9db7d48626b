package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// told is what these tests read of a receipt.
type told struct {
	ID, Tier string
	Client   string `json:"client_request_id"`
	Code     int
	Plan     struct{ Reason string }
	Settings struct{ Mode string }
	Tokens   struct{ Target int }
	Attempts []struct{ Call string }
	MS       struct {
		First float64 `json:"first_byte"`
		Total float64
	}
}

// receiptsOf reads the receipts that the admin listener tells.
func (b *bench) receiptsOf(t *testing.T, query string) (list []told) {
	t.Helper()
	r := b.call(t, http.MethodGet, b.admin+"/admin/receipts"+query, "")
	if r.status != http.StatusOK || r.head.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v: %s", r.status, r.head, r.body)
	}
	for line := range strings.Lines(r.body) {
		var one told
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, one)
	}
	return list
}

func TestWhatWasDecidedForARequestCanBeRead(t *testing.T) {
	o := startBench(t, simulator(t).URL(), func(o *Options) { o.Settings = setting(t, "receipts.log_sample_rate", "1") })
	const secret = "a word that must not be told"
	var id string
	for model, want := range map[string]int{"llama-3": http.StatusOK, "nobody knows": http.StatusNotFound} { // which leaves none
		r := o.to(t, chatPath, "", `{"model":"`+model+`","max_tokens":5,"messages":[{"role":"user","content":"`+secret+`"}]}`, "Authorization", "Bearer sk-hidden")
		if r.status != want {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if want == http.StatusOK {
			id = r.head.Get("X-Request-Id")
		}
	}
	soon(t, "there is a receipt", func() bool { return len(o.receiptsOf(t, "")) > 0 }) // it is filed after the answer
	r := o.receiptsOf(t, "?n=1&route=llama-3&acceptance=bypassed&since=1h")[0]
	if r.ID != id || r.Code != 200 || r.Tier != "target" || r.Plan.Reason != "no_draft_pool" || r.Settings.Mode != "confidence" || r.Tokens.Target != 5 || len(r.Attempts) != 1 || r.MS.First <= 0 || r.MS.Total < r.MS.First {
		t.Errorf("%+v %+v", r, r.Plan)
	}
	if list := o.receiptsOf(t, "?acceptance=rejected"); len(list) != 0 {
		t.Errorf("%d rejected", len(list))
	}
	if list := o.receiptsOf(t, "?since="+url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))); len(list) != 0 {
		t.Errorf("%d of the future", len(list))
	}
	code, one := o.send(t, http.MethodGet, o.admin+"/admin/receipts/"+id, "")
	if code != http.StatusOK || !strings.Contains(one, `"id":"`+id+`"`) {
		t.Errorf("%d %s", code, one)
	}
	lines := o.log.holding(`"message":"receipt"`)
	if len(lines) != 1 || !strings.Contains(lines[0], strings.TrimSpace(one)) {
		t.Errorf("the log has %q", lines)
	}
	if all := one + strings.Join(lines, ""); strings.Contains(all, "must not") || strings.Contains(all, "sk-hidden") {
		t.Errorf("it tells too much: %s", all)
	}
}

func TestBadQuestionsForReceiptsAreRefusedByName(t *testing.T) {
	o := startBench(t, simulator(t).URL(), nil)
	for _, tc := range []struct {
		path, want string
		code       int
	}{
		{"?n=0", `"param":"n"`, 400},
		{"?n=1001", `"param":"n"`, 400},
		{"?n=many", `"param":"n"`, 400},
		{"?acceptance=maybe", `"param":"acceptance"`, 400},
		{"?since=yesterday", `"param":"since"`, 400},
		{"?since=-5m", `"param":"since"`, 400},
		{"?route=nobody", `"code":"model_not_found"`, 404},
		{"?tenant=a", `"param":"tenant"`, 400},
		{"?n=1&n=2", `"param":"n"`, 400},
		{"/unheard-of", `"code":"unknown_receipt"`, 404},
		{"/unheard-of?n=1", `"param":"n"`, 400},
	} {
		if code, body := o.send(t, http.MethodGet, o.admin+"/admin/receipts"+tc.path, ""); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s", tc.path, code, body)
		}
	}
}

func TestWhyARequestFailedIsInItsReceipt(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 200, ""},
		{errOverloaded, 503, "overloaded"},
		{&tiers.BrokenError{Cause: &engine.Failure{Kind: engine.Stalled}}, statusBroken, string(engine.Stalled)},
		{errors.New("secret detail"), statusGone, "client_left"},
		{errors.New("secret detail"), 500, "internal_error"},
	} {
		f := (&Gateway{}).receiptOf(&accessRecord{route: "r", code: tc.code, err: tc.err}, "/", 0)
		if f.Error != tc.want {
			t.Errorf("%v with %d: %q, want %q", tc.err, tc.code, f.Error, tc.want)
		}
	}
}

// newTracer is a tracer that sends nothing: it does not run.
func newTracer(t *testing.T) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(tracing.Options{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func TestUpstreamIsToldWhoseChildACallIs(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		tracer   *tracing.Tracer
		flags    string // of the client's
		recorded bool
	}{
		{nil, "01", false},
		{newTracer(t), "01", true},
		{newTracer(t), "02", false},
	} {
		client := "00-" + id + "-00f067aa0ba902b7-" + c.flags
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
		r.Header.Set("Traceparent", client)
		r.Header.Set("Tracestate", "vendor=1")
		g := &Gateway{opts: Options{Tracer: c.tracer}}
		l := &accessRecord{Metadata: tiers.Metadata{Identity: dispatch.Identity{ID: "x"}}}
		g.beginTrace(l, r.Header)
		want, state := client, ""
		if c.tracer != nil {
			state = "vendor=1"
			want = "00-" + id + "-" + hex.EncodeToString(l.trace.Span[:]) + "-" + c.flags
		}
		if h := upstreamHeader(l, r); h.Get("Traceparent") != want || (c.tracer == nil) != (h.Get("Traceparent") == client) || h.Get("Tracestate") != state || l.trace.Recorded() != c.recorded {
			t.Errorf("%+v: %v, recorded %v", c, h, l.trace.Recorded())
		}
	}
}

func TestOnlyIdentifiedCallersDecideAboutTheirTraces(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	who := callers(t, identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("secret"))}}}})
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Identity, o.Tracer, o.Forward = who, newTracer(t), []string{"/v1/embeddings"}
	})
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"}
	for _, path := range paths {
		for _, key := range []string{"wrong", "secret"} {
			code, body := b.send(t, http.MethodPost, b.url+path, `{"model":"llama-3"}`, "Content-Type", "application/json", "Authorization", "Bearer "+key, "Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
			if (code == http.StatusUnauthorized) != (key == "wrong") {
				t.Errorf("%s with the key %s: %d %s", path, key, code, body)
			}
		}
	}
	b.Stop(t.Context())                                                                                              // every request is in the log
	known, unknown := b.log.holding(`"tenant":"acme","priority":"low","trace_id":"`+id), b.log.holding(`"code":401`) // of requests, not of receipts
	if len(known) != len(paths) || len(unknown) != len(paths) || strings.Contains(strings.Join(unknown, ""), id) {
		t.Errorf("with the client's trace:\n%s\nwithout it:\n%s", strings.Join(known, ""), strings.Join(unknown, ""))
	}
}

func TestTheModelIsThatOfThePoolThatWroteTheAnswer(t *testing.T) {
	named := func(name string) *pool.Pool {
		p, err := pool.New(pool.Options{Name: name, Model: name + "-model", Backends: []string{"http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rt := &tiers.Route{Draft: named("small"), Target: named("large"), Fallbacks: []tiers.Fallback{{Pool: named("first")}, {Pool: named("second")}}}
	straight := &tiers.Route{Target: rt.Target}
	calls := func(pools ...string) *tiers.Receipt {
		rc := &tiers.Receipt{}
		for _, p := range pools {
			rc.Tries = append(rc.Tries, dispatch.Try{Pool: p})
		}
		return rc
	}
	for _, c := range []struct {
		route   *tiers.Route
		tier    plan.Tier
		receipt *tiers.Receipt // nil: it was cached
		want    string
	}{
		{rt, plan.Draft, calls("small"), "small-model"},
		{rt, plan.Mixed, calls("small", "large"), "large-model"},
		{rt, plan.Target, calls("large"), "large-model"},
		{rt, plan.Fallback, calls("large", "first", "second"), "second-model"},
		{rt, plan.Fallback, calls("large"), ""},
		{rt, plan.Fallback, nil, ""},
		{rt, plan.Draft, nil, "small-model"},
		{rt, plan.Mixed, nil, "large-model"},
		{straight, plan.Draft, nil, ""},
		{rt, "", calls("large"), ""},
		{nil, plan.Target, calls("large"), ""},
	} {
		if got := modelOf(c.route, &receipts.Receipt{Tier: string(c.tier), Cascade: c.receipt}); got != c.want {
			t.Errorf("tier %q, receipt %v: %q, want %q", c.tier, c.receipt, got, c.want)
		}
	}
}
