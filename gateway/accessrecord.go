package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	stdlog "log"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
)

// Codes of the access record that are no HTTP status.
const (
	statusGone   = 499 // the client left
	statusBroken = 597 // the answer broke off after its first byte
)

// maxDetail bounds an error's text in the log, in bytes.
const maxDetail = 512

// accessRecord collects the access record of one request. It never holds keys, and prompts and answers only for the trace of a
// tenant that opted in.
type accessRecord struct {
	tiers.Metadata
	tiers.Record

	client    string // X-Request-ID as the client sent it, "" where it sent none
	route     string
	variant   *tiers.Route // that answers, on a route with variants; nil on others, and for what is passed through
	diverted  string       // the target pool that would have answered, had it taken requests; "" for none
	code      int          // 0: as written
	bodyRead  bool         // the whole body was read
	out       *sink
	api       *clientAPI               // of its path, also where the request is forwarded; nil for OpenAI's completions and all other paths
	fieldName func(chat string) string // of a field of the chat completion in the api; nil where nothing is translated
	dropped   []string                 // of a translated request, for its receipt
	trace     *receipts.Trace          // nil where requests are not traced
	content   *receipts.Content        // nil where the trace is without content
	answering *tiers.Route             // the request's route, or the variant of it; nil if none is known
	err       error

	sink    sink      // what out points to: one allocation for both
	idLines [1]string // the answer's X-Request-Id
}

// nosniff is the value of X-Content-Type-Options.
var nosniff = []string{"nosniff"}

type accessRecordKey struct{}

// record writes one log line and updates the metrics of each request.
func (g *Gateway) record(next func(*accessRecord, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := &accessRecord{Metadata: tiers.Metadata{Identity: dispatch.Identity{ID: newID()}, Began: time.Now()}, api: apiOf(r.URL.Path)}
		g.metrics.inFlight.Inc()
		defer func() {
			g.metrics.inFlight.Dec()
			if l.out != nil {
				l.out.stop() // the response ends with its handler
			}
			g.settle(l, r)
		}()
		h := w.Header()
		l.setID(h, l.ID) // also on refusals of checkRequest
		if g.draining.Load() {
			h.Set("Connection", "close") // the client sends new requests on another connection, which may reach another replica
		}
		h["X-Content-Type-Options"] = nosniff // browsers must not guess a page type, whatever a backend sends
		next(l, w, r)
	})
}

// setID sets the answer's X-Request-Id, and Request-Id, where Anthropic's clients look for it.
func (a *accessRecord) setID(h http.Header, id string) {
	a.idLines[0] = id
	h["X-Request-Id"] = a.idLines[:]
	if a.api != nil && a.api.namesRequest {
		h["Request-Id"] = a.idLines[:]
	}
}

// requestID is the request's id as the headers of its answer have it: the client's, if it sent one.
func (a *accessRecord) requestID() string { return cmp.Or(a.client, a.ID) }

// recovered answers with the error of a handler. It turns a panic into a 500, or into an aborted connection if
// the answer has begun. The process continues.
func (g *Gateway) recovered(next handler) func(*accessRecord, http.ResponseWriter, *http.Request) {
	return func(l *accessRecord, w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p) // our own http.ErrAbortHandler: the server closes the connection
			}
			g.metrics.panics.Inc()
			g.log.Error().Str("request_id", l.ID).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("handler panicked")
			g.fail(w, r, l, errPanic)
		}()
		if err := next(l, w, r); err != nil {
			g.fail(w, r, l, err)
		}
	}
}

// isClients reports whether a status of 500 and above is the client's own doing: it allowed only a cached answer, or asked for
// what no engine can do.
func (a *accessRecord) isClients() bool {
	return a.code == http.StatusNotImplemented || errors.Is(a.err, tiers.ErrNotCached)
}

// settle records a finished request.
func (g *Gateway) settle(l *accessRecord, r *http.Request) {
	if l.code == 0 {
		l.code = http.StatusOK
	}
	took := time.Since(l.Began)
	g.metrics.request(l, took)
	g.countUsage(l, took)
	g.keepReceipt(l, g.receiptOf(l, r.URL.Path, took))
	if quiet(r.URL.Path) {
		return
	}
	e := g.log.Info()
	if l.code >= 500 && !l.isClients() {
		e = g.log.Warn()
	}
	e = e.Str("request_id", l.ID).Str("method", clip(r.Method)).Str("path", clip(r.URL.Path)).Int("code", l.code).
		Dur("ms", took).Str("tenant", l.Caller.Tenant).Str("priority", l.Caller.Priority.String())
	if l.client != "" {
		e = e.Str("client_request_id", l.client)
	}
	if l.Caller.Clamped {
		e = e.Bool("priority_clamped", true)
	}
	if l.trace.Recorded() {
		e = e.Hex("trace_id", l.trace.ID[:])
	}
	if l.Demoted {
		e = e.Bool("priority_demoted", true)
	}
	if l.Cache != "" {
		e = e.Str("cache", string(l.Cache))
	}
	switch {
	case l.Entry != nil:
		e = e.Str("route", l.route).Str("tier", l.Entry.Tier).Str("finish", l.Entry.Finish).
			Int("prompt_tokens", l.Entry.Prompt).Int("saved_tokens", l.Entry.Accepted+l.Entry.Target)
	case l.Receipt != nil:
		e = recordReceipt(e, l.Receipt)
	}
	if l.err != nil {
		e = e.Str("error", clipTo(l.err.Error(), maxDetail))
	}
	e.Msg("request")
}

func recordReceipt(e *zerolog.Event, rc *tiers.Receipt) *zerolog.Event {
	return e.Str("route", rc.Route).Str("tier", string(rc.Tier)).Str("acceptance", rc.Acceptance()).
		Array("attempts", (*attempts)(&rc.Tries)).Dur("queued_ms", rc.Waited).Dur("first_byte_ms", rc.First).Str("finish", rc.Finish).
		Int("prompt_tokens", rc.PromptTokens).Int("accepted_tokens", rc.AcceptedTokens).
		Int("target_tokens", rc.TargetTokens).Int("wasted_tokens", rc.WastedTokens)
}

// attempts are the calls of a receipt as a field of the log.
type attempts []dispatch.Try

// MarshalZerologArray implements zerolog.LogArrayMarshaler.
func (a *attempts) MarshalZerologArray(to *zerolog.Array) {
	var room [128]byte
	for i := range *a {
		t := &(*a)[i]
		name := append(append(append(room[:0], t.Pool...), '/'), t.Backend...)
		if t.Failed != "" {
			name = append(append(name, '!'), t.Failed...)
		}
		to.Bytes(name)
	}
}

// quiet reports whether a path is polled so often that its requests are not logged.
func quiet(path string) bool {
	return slices.Contains([]string{"/livez", "/readyz", "/health", "/ping"}, path)
}

// newID is a request id of 128 random bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// newServerLog passes the messages of net/http to the logger, one bounded line each.
func newServerLog(log zerolog.Logger) *stdlog.Logger { return stdlog.New(serverLog{log}, "", 0) }

type serverLog struct{ log zerolog.Logger }

func (s serverLog) Write(p []byte) (int, error) {
	s.log.Debug().Str("detail", strconv.Quote(clip(strings.TrimSpace(string(p))))).Msg("http server")
	return len(p), nil
}
