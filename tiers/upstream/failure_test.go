package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// faults are what backends do wrong before the first byte or in it, by how the answer is read.
func faults() map[string]struct {
	call func(testing.TB) engine.Call
	do   http.HandlerFunc
	want string // kind, status, status of the response
} {
	type call = func(testing.TB) engine.Call
	streamed := func(t testing.TB) engine.Call { return relay(t, aStream) }
	inOne := func(t testing.TB) engine.Call { return relay(t, aPlain) }
	draft := func(t testing.TB) engine.Call {
		return &engine.Answer{Draft: true, Request: scan(t, openai.Chat, aPlain), Into: new(openai.DraftAnswer)}
	}
	count := func(testing.TB) engine.Call { return &engine.TokenizeText{Model: "big", Into: new([]int32)} }
	pass := func(testing.TB) engine.Call {
		return &engine.Forward{Path: "/v1/x", Body: []byte("{}"), Into: new(engine.Forwarded)}
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, code) }
	}
	events := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { say(w, events...) }
	}
	body := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { write(w, kind, body) }
	}
	return map[string]struct {
		call call
		do   http.HandlerFunc
		want string
	}{
		"500":                          {streamed, status(500, "x"), "upstream_error 500 500"},
		"503":                          {streamed, status(503, "x"), "upstream_busy 503 503"},
		"501":                          {count, status(501, `{"error":{"code":501,"message":"x","type":"not_supported_error"}}`), "upstream_rejected 501 501"},
		"500 for a long prompt":        {streamed, status(500, `{"error":{"code":500,"message":"x","type":"exceed_context_size_error","n_ctx":256}}`), "upstream_rejected 400 500"},
		"an event of a long prompt":    {streamed, events(`{"error":{"code":400,"message":"x","type":"exceed_context_size_error","n_ctx":256}}`), "upstream_rejected 400 200"},
		"200 for a long prompt":        {inOne, body("application/json", `{"error":{"message":"x","type":"exceed_context_size_error"}}`), "upstream_rejected 400 200"},
		"429":                          {inOne, status(429, "x"), "upstream_busy 429 429"},
		"400":                          {draft, status(400, `{"error":{"message":"too long"}}`), "upstream_rejected 400 400"},
		"404":                          {streamed, status(404, "x"), "upstream_wrong_model 404 404"},
		"405 of a draft":               {draft, status(405, "x"), "upstream_wrong_model 405 405"},
		"410":                          {inOne, status(410, "x"), "upstream_wrong_model 410 410"},
		"421":                          {inOne, status(421, "x"), "upstream_wrong_model 421 421"},
		"501 of a draft":               {draft, status(501, "x"), "upstream_wrong_model 501 501"},
		"404 of what passes":           {pass, status(404, "x"), "upstream_wrong_model 404 404"},
		"an error event of no model":   {streamed, events(`{"error":{"message":"x","type":"NotFoundError"}}`), "upstream_wrong_model 404 200"},
		"408":                          {inOne, status(408, "x"), "upstream_error 408 408"},
		"409":                          {streamed, status(409, "x"), "upstream_error 409 409"},
		"425":                          {streamed, status(425, "x"), "upstream_error 425 425"},
		"404 of a question":            {count, status(404, "x"), "upstream_rejected 404 404"},
		"401":                          {streamed, status(401, `{"error":"Unauthorized"}`), "upstream_auth 401 401"},
		"403":                          {pass, status(403, "x"), "upstream_auth 403 403"},
		"an error event for a key":     {streamed, events(`{"error":{"message":"x","code":401}}`), "upstream_auth 401 200"},
		"204":                          {pass, status(204, ""), "bad_upstream_response 204 204"},
		"a redirect":                   {pass, status(307, ""), "bad_upstream_response 307 307"},
		"no answer":                    {streamed, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "upstream_cut 0 0"},
		"a stream that is none":        {streamed, body("application/json", aWhole), "bad_upstream_response 0 200"},
		"no JSON in a stream":          {streamed, events("{nothing"), "bad_upstream_response 0 200"},
		"an endless event":             {streamed, body("text/event-stream", "data: "+strings.Repeat("a", maxEvent+1)), "bad_upstream_response 0 200"},
		"an empty stream":              {streamed, events(), "upstream_cut 0 200"},
		"an end at once":               {streamed, events(openai.Done), "upstream_cut 0 200"},
		"an error event":               {streamed, events(`{"error":{"message":"died"}}`), "upstream_error 0 200"},
		"an error event of a server":   {streamed, events(`{"error":{"message":"x","code":500}}`), "upstream_error 500 200"},
		"an error event of a client":   {streamed, events(`{"error":{"message":"x","code":400}}`), "upstream_rejected 400 200"},
		"an error event in words":      {streamed, events(`{"error":{"message":"x","type":"invalid_request_error"}}`), "upstream_rejected 400 200"},
		"an error event for want":      {streamed, events(`{"error":{"message":"x","code":503}}`), "upstream_busy 503 200"},
		"an abort":                     {streamed, events(`{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`), "upstream_aborted 0 200"},
		"no JSON":                      {inOne, body("application/json", "nothing"), "bad_upstream_response 0 200"},
		"half an answer":               {inOne, body("application/json", aWhole[:40]), "bad_upstream_response 0 200"},
		"an error with status 200":     {inOne, body("application/json", `{"error":{"message":"x","code":404}}`), "upstream_wrong_model 404 200"},
		"an answer with choices twice": {inOne, body("application/json", `{"choices":[],`+aWhole[1:]), "bad_upstream_response 0 200"},
		"an answer without choices":    {inOne, body("application/json", `{"choices":[]}`), "bad_upstream_response 0 200"},
		"an answer that was aborted":   {inOne, body("application/json", strings.Replace(aWhole, "stop", "abort", 1)), "upstream_aborted 0 200"},
		"a choice that was aborted":    {inOne, body("application/json", `{"choices":[{"index":0,"text":"a","finish_reason":"abort"},{"index":1,"text":"b","finish_reason":"stop"}]}`), "upstream_aborted 0 200"},
		"an answer beyond the cap":     {inOne, body("application/json", strings.Repeat(" ", 2000)+aWhole), "answer_too_large 0 200"},
		"a draft of two minds":         {draft, body("application/json", `{"choices":[{"message":{"content":"a"},"text":"b"}]}`), "bad_upstream_response 0 200"},
		"ids that are none":            {count, body("application/json", `{"tokens":["a"]}`), "bad_upstream_response 0 200"},
		"a page that passes through":   {pass, body("text/html", "<script>"), "bad_upstream_response 0 200"},
		"a lost answer that passes":    {pass, cutShort("application/json"), "upstream_cut 0 200"},
		"a lost answer":                {inOne, cutShort("application/json"), "upstream_cut 0 200"},
		"an answer beyond cap, untold": {inOne, chunked(strings.Repeat(" ", 2000)), "answer_too_large 0 200"},
		"a packed one that passes": {pass, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			write(w, "application/json", "{}")
		}, "bad_upstream_response 0 200"},
	}
}

// cutShort breaks off within the body.
func cutShort(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// chunked answers without telling the length.
func chunked(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, body)
	}
}

func TestEveryFaultHasItsKindAndItsStatus(t *testing.T) {
	c := newClient(t, Options{MaxBody: 1000})
	for name, tc := range faults() {
		s, err := c.Open(t.Context(), at(serve(t, tc.do), tc.call(t)))
		if err == nil {
			s.Close()
			t.Errorf("%s: no failure", name)
			continue
		}
		if f := failureOf(t, err); formatFailure(f) != tc.want || f.ReusedConnection || f.StaleConnection {
			t.Errorf("%s: %s (%v), want %s", name, formatFailure(f), f, tc.want)
		}
	}
}

func TestWhatABackendSaysOfItsFaultIsKept(t *testing.T) {
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "100000": maxHint, "-1": 0, "soon": 0, "": 0} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "\ufeff"+`{"error":{"message":"full","param":"model"}}`+strings.Repeat(" ", maxErrorBody))
		})
		_, err := newClient(t, Options{}).Open(t.Context(), at(url, relay(t, aPlain)))
		if f := failureOf(t, err); f.RetryAfter != want || f.Fault == nil || f.Fault.Message != "full" || f.Fault.Param != "model" {
			t.Errorf("%q: %v, %+v", after, f.RetryAfter, f.Fault)
		}
	}
}

func TestNoConnectionIsARefusal(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := newClient(t, Options{}).Open(t.Context(), at(gone.URL, relay(t, aPlain)))
	if f := failureOf(t, err); formatFailure(f) != "upstream_refused 0 0" || f.ReusedConnection {
		t.Errorf("%v", f)
	}
}

// ends are why an exchange may end from without, by the cause of its context.
var ends = map[error]engine.FailureKind{
	context.DeadlineExceeded: engine.Expired, context.Canceled: engine.ClientGone, pool.ErrLost: engine.Silent,
}

// silent is a backend that says these events, and then nothing until it is left.
func silent(t testing.TB, events ...string) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that it is left
		if len(events) > 0 {
			say(w, events...)
		}
		<-r.Context().Done()
	})
}

func TestWhatEndsAWaitForTheFirstByteIsToldApart(t *testing.T) {
	c := newClient(t, Options{})
	url := silent(t)
	for _, body := range []string{aStream, aPlain} {
		a := at(url, relay(t, body))
		for cause, want := range ends {
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
			_, err := c.Open(ctx, a)
			timer.Stop()
			if f := failureOf(t, err); f.Kind != want || f.ReusedConnection {
				t.Errorf("%v: %v, want %s", cause, f, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := c.Open(ctx, a)
		cancel()
		if f := failureOf(t, err); f.Kind != engine.Expired {
			t.Errorf("%v behind the deadline", f)
		}
		a.FirstByteTimeout = 20 * time.Millisecond
		_, err = c.Open(t.Context(), a)
		if f := failureOf(t, err); f.Kind != engine.Timeout {
			t.Errorf("%v", f)
		}
	}
}

func TestWhatEndsAStreamThatFallsSilentIsToldApart(t *testing.T) {
	c := newClient(t, Options{})
	url := silent(t, aChunk)
	for name, call := range map[string]engine.Call{"events": relay(t, aStream), "raw": &engine.Forward{Path: "/v1/x", Body: []byte("{}"), Into: new(engine.Forwarded)}} {
		a := at(url, call)
		for cause, want := range ends {
			ctx, cancel := context.WithCancelCause(t.Context())
			s, err := c.Open(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
			_, err = drain(s)
			timer.Stop()
			s.Close()
			if f := failureOf(t, err); f.Kind != want || f.Responded != 200 {
				t.Errorf("%s, %v: %v, want %s", name, cause, f, want)
			}
		}
		a.IdleTimeout = 20 * time.Millisecond
		s := open(t, c, a)
		texts, err := drain(s)
		s.Close()
		if f := failureOf(t, err); f.Kind != engine.Stalled || f.Responded != 200 || len(texts) != 1 {
			t.Errorf("%s: %v after %d chunks", name, f, len(texts))
		}
	}
}

// TestTimesAreOfWhatTheyAreFor: the first byte's bounds nothing behind it, each chunk has the whole of the silence to come,
// and a comment is none.
func TestTimesAreOfWhatTheyAreFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		c := New(Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: from}, nil
		})})
		go func() {
			for i := range 15 {
				time.Sleep(900 * time.Millisecond)
				_, _ = io.WriteString(to, []string{"data: " + aChunk + "\n\n", ": ping\n\n"}[min(i%3, 1)])
			}
		}()
		a := at("http://127.0.0.1:1", relay(t, aStream))
		a.FirstByteTimeout, a.IdleTimeout = time.Second, time.Second
		s := open(t, c, a)
		time.Sleep(800 * time.Millisecond) // of the reader's own are nobody's silence
		texts, err := drain(s)
		if f := failureOf(t, err); f.Kind != engine.Stalled || len(texts) != 5 {
			t.Errorf("%v behind %d chunks", f, len(texts))
		}
	})
}

func TestKindsOfErrorsOfTheTransport(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	alive := context.Background()
	dial := &net.OpError{Op: "dial", Err: errors.New("no route")}
	for _, tc := range []struct {
		parent context.Context
		err    error
		want   engine.FailureKind
	}{
		{alive, fmt.Errorf("dial: %w", syscall.EMFILE), engine.Exhausted},
		{alive, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, engine.Exhausted},
		{alive, syscall.ENFILE, engine.Exhausted},
		{alive, syscall.ENOBUFS, engine.Exhausted},
		{alive, syscall.EADDRNOTAVAIL, engine.Exhausted},
		{alive, syscall.ECONNREFUSED, engine.Refused},
		{alive, dial, engine.Refused},
		{alive, &net.DNSError{}, engine.Refused},
		{alive, fmt.Errorf("handshake: %w", &tls.CertificateVerificationError{Err: io.EOF}), engine.Unauthorized},
		{alive, &net.OpError{Op: "remote error", Err: tls.AlertError(116)}, engine.Unauthorized},
		{alive, io.EOF, engine.Cut},
		{alive, io.ErrUnexpectedEOF, engine.Cut},
		{alive, syscall.ECONNRESET, engine.Reset},
		{alive, openai.ErrEventTooLong, engine.BadResponse},
		{alive, fmt.Errorf("%w: x", engine.ErrBody), engine.BadResponse},
		{alive, engine.ErrFirstByte, engine.Timeout},
		{alive, engine.ErrStalled, engine.Stalled},
		{ended(pool.ErrLost), io.EOF, engine.Silent},
		{ended(pool.ErrLost), engine.ErrFirstByte, engine.Silent},
		{ended(context.Canceled), engine.ErrFirstByte, engine.ClientGone},
		{ended(context.DeadlineExceeded), engine.ErrFirstByte, engine.Expired},
	} {
		if got := transportKind(tc.parent, tc.err); got != tc.want {
			t.Errorf("%v, %v: %s, want %s", context.Cause(tc.parent), tc.err, got, tc.want)
		}
	}
}

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// scripted is a client whose backend answers with these bytes.
func scripted(kind string, body []byte) *Client {
	return New(Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})})
}

func TestAPanicOfATransportLeavesNothingOpen(t *testing.T) {
	var own context.Context
	c := New(Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		own = r.Context() //nolint:fatcontext // the test looks at it afterwards
		panic("x")
	})})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it was swallowed")
			}
		}()
		_, _ = c.Open(t.Context(), at("http://127.0.0.1:1", relay(t, aPlain)))
	}()
	if own.Err() == nil {
		t.Error("its context lives on")
	}
}

func TestALimitOfRatesTellsWhenTheNextRequestHasRoom(t *testing.T) {
	for _, c := range []struct {
		status int
		head   map[string]string
		want   time.Duration
	}{
		{200, nil, 0},
		{429, nil, time.Second},
		{429, map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{429, map[string]string{"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, time.Second},
		{503, map[string]string{"Retry-After": "7"}, 0},
		{200, map[string]string{"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s"}, time.Second},
		{200, map[string]string{"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "1", "X-Ratelimit-Reset-Requests": "59s"}, 0},
		{200, map[string]string{"X-Ratelimit-Limit-Tokens": "30", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "48h"}, 2 * time.Second},
		{200, map[string]string{"X-Ratelimit-Limit-Tokens": "0", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "1s"}, 0},
		{200, map[string]string{"X-Ratelimit-Limit-Tokens": "-5", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "-1s"}, 0},
		{429, map[string]string{"Retry-After": "1", "X-Ratelimit-Limit-Requests": "2", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6s"}, 3 * time.Second},
	} {
		h := http.Header{}
		for name, value := range c.head {
			h.Set(name, value)
		}
		if got := pause(c.status, h); got != c.want {
			t.Errorf("%d %v: %v, want %v", c.status, c.head, got, c.want)
		}
	}
}
