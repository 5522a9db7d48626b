package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// problem is an error as the client gets it.
type problem struct {
	status    int
	body      openai.ErrorBody
	retry     time.Duration // Retry-After; 0 is none
	retryable bool          // a retry may help: what a 429 or 5xx says in X-Should-Retry
	header    [2]string     // one more header
}

// Error makes a problem an error, so that handlers can return the predefined ones.
func (p *problem) Error() string { return p.body.Message }

// retried reports whether the SDKs retry such a status by default.
func (p *problem) retried() bool {
	return p.status >= 500 || p.status == http.StatusTooManyRequests
}

func invalid(status int, code, message string) *problem {
	return &problem{status: status, body: openai.ErrorBody{Message: message, Type: "invalid_request_error", Code: code}}
}

// The refusals without numbers.
var (
	errNotFound    = invalid(http.StatusNotFound, "unknown_url", "There is nothing at this path. See GET /v1/models for the models served here.")
	errMethod      = invalid(http.StatusMethodNotAllowed, "method_not_allowed", "This path does not take this method.")
	errHeaders     = invalid(http.StatusRequestHeaderFieldsTooLarge, "too_many_headers", fmt.Sprintf("A request may have at most %d header lines.", maxHeaders))
	errAbsoluteURI = invalid(http.StatusBadRequest, "bad_request_line", "The request line must name a path, not a whole URL.")
	errEncoding    = invalid(http.StatusUnsupportedMediaType, "unsupported_encoding", "A Content-Encoding is not accepted; send the body as it is.")
	errContentType = invalid(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type must be application/json, in UTF-8.")
	errTooLarge    = invalid(http.StatusRequestEntityTooLarge, "body_too_large", "The request body is larger than this gateway accepts.")
	errTranslation = invalid(http.StatusRequestEntityTooLarge, "body_too_large", "To translate this body into a chat completion takes more memory than this gateway has for one tenant. Send less, or a chat completion.")
	errBodyTimeout = invalid(http.StatusRequestTimeout, "body_timeout", "The request body did not come in time.")
	errNotCached   = &problem{status: http.StatusGatewayTimeout, body: openai.ErrorBody{
		Message: "There is no cached answer to this request that will do, and only-if-cached allows no other.", Type: "invalid_request_error", Code: "not_cached",
	}}
	errTier       = invalid(http.StatusBadRequest, "bad_header", "X-Tier must be auto, draft or target.")
	errMode       = invalid(http.StatusBadRequest, "bad_header", "X-Acceptance-Mode must be default, exact or target.")
	errOverloaded = &problem{
		status: http.StatusServiceUnavailable, retry: time.Second, retryable: true,
		body: openai.ErrorBody{Message: "The gateway has too many requests under way.", Type: "overloaded_error", Code: "overloaded"},
	}
	errGoing = &problem{ // another replica answers, so a retry is always welcome and counts against no retry budget
		status: http.StatusServiceUnavailable, retry: time.Second, retryable: true,
		body: openai.ErrorBody{Message: "This replica is shutting down.", Type: "overloaded_error", Code: "gateway_draining"},
	}
	errPanic = &problem{
		status: http.StatusInternalServerError, retryable: true,
		body: openai.ErrorBody{Message: "The gateway failed to handle this request.", Type: "server_error", Code: "internal_error"},
	}
)

// codeModelNotAllowed is the code of a 403 for a model that the tenant may not use.
const codeModelNotAllowed = "model_not_allowed"

// modelError is a request for a model that no route has.
type modelError struct{ name string }

func (e *modelError) Error() string { return fmt.Sprintf("unknown model %q", e.name) }

// accessError is a request for a model that its tenant may not use.
type accessError struct{ tenant, model string }

func (e *accessError) Error() string {
	return fmt.Sprintf("tenant %s may not use model %q", e.tenant, clip(e.model))
}

// bodyError wraps the error of a request body that could not be read.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "reading the body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// problemOf is the error table: it maps every error of a handler to what the client sees. Details for
// operators appear only in the log.
func problemOf(err error) *problem {
	var (
		fixed     *problem
		request   *openai.RequestError
		header    *identity.Error
		model     *modelError
		access    *accessError
		body      *bodyError
		limited   *ledger.LimitError
		overspent *ledger.BudgetError
		refused   *shortage
		shed      *admission.ShedError
		none      *pool.NoBackendError
		exhausted *dispatch.ExhaustedError
		failure   *engine.Failure
	)
	switch {
	case errors.As(err, &fixed):
		return fixed
	case errors.As(err, &request):
		return &problem{status: request.Status, body: openai.ErrorBody{Message: request.Message, Type: "invalid_request_error", Param: request.Param, Code: request.Code}}
	case errors.As(err, &header):
		return headerProblem(header)
	case errors.As(err, &model):
		return &problem{status: http.StatusNotFound, body: openai.ErrorBody{
			Message: fmt.Sprintf("The model %q does not exist. GET /v1/models lists those that do.", clip(model.name)), Type: "invalid_request_error", Param: "model", Code: "model_not_found",
		}}
	case errors.As(err, &access):
		return &problem{status: http.StatusForbidden, body: openai.ErrorBody{
			Message: fmt.Sprintf("You may not use the model %q. GET /v1/models lists those that you may use.", clip(access.model)), Type: "permission_error", Param: "model", Code: codeModelNotAllowed,
		}}
	case errors.As(err, &body):
		return invalid(http.StatusBadRequest, "bad_body", "The request body could not be read whole.")
	case errors.As(err, &limited):
		return limitProblem(limited)
	case errors.As(err, &overspent):
		return budgetProblem(overspent)
	case errors.As(err, &refused):
		return bodyProblem(refused)
	case errors.As(err, &shed):
		return shedProblem(shed)
	case errors.As(err, &exhausted):
		return exhaustedProblem(exhausted)
	case errors.As(err, &none) && none.TooLong && none.Answers > 0:
		return invalid(http.StatusBadRequest, "invalid_value", fmt.Sprintf("The %d answers together may need more memory than the backends of this model have for one request. Ask for fewer at once, or for shorter ones.", none.Answers))
	case errors.As(err, &none) && none.TooLong:
		return invalid(http.StatusBadRequest, "context_length_exceeded", fmt.Sprintf("The prompt has %d tokens, and the backends of this model have memory for %d.", none.Prompt, none.Largest))
	case errors.As(err, &none):
		return noBackend()
	case errors.As(err, &failure):
		return failureProblem(failure)
	case errors.Is(err, pipeline.ErrBroken), errors.Is(err, pipeline.ErrNotShareable):
		return &problem{status: http.StatusBadGateway, retryable: true, body: openai.ErrorBody{
			Message: "The answer broke off.", Type: "server_error", Code: string(engine.Cut),
		}}
	case errors.Is(err, pipeline.ErrNotCached):
		return errNotCached
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut(engine.Expired)
	}
	return errPanic
}

func headerProblem(e *identity.Error) *problem {
	p := &problem{body: openai.ErrorBody{Message: e.Error(), Param: e.Header}}
	switch e.Kind {
	case identity.Unauthorized:
		p.status, p.body.Type, p.body.Code = http.StatusUnauthorized, "authentication_error", "invalid_api_key"
	case identity.Forbidden:
		p.status, p.body.Type, p.body.Code = http.StatusForbidden, "permission_error", "forbidden"
	default:
		p.status, p.body.Type, p.body.Code = http.StatusBadRequest, "invalid_request_error", "bad_header"
	}
	return p
}

// bodyProblem refuses a body that was not read. If the tenant itself holds too much, the client should slow
// down; otherwise the gateway is overloaded.
func bodyProblem(e *shortage) *problem {
	switch {
	case e.ofTenant:
		return &problem{status: http.StatusTooManyRequests, retry: jitter(time.Second), retryable: true, body: openai.ErrorBody{
			Message: "Too many requests at once, or too large ones: they already hold the share of this gateway that one tenant may have. Try again when some of them have ended.", Type: string(ledger.Requests), Code: "tenant_share",
		}}
	case e.what == "requests":
		return errOverloaded
	}
	return &problem{status: http.StatusServiceUnavailable, retry: jitter(time.Second), retryable: true, body: openai.ErrorBody{
		Message: "The gateway holds as many request bodies as it has memory for.", Type: "overloaded_error", Code: "upload_overloaded",
	}}
}

func shedProblem(e *admission.ShedError) *problem {
	message := "The pools are short of memory and this priority is shed for now."
	switch d := e.Decision; {
	case d.Threshold == 0:
		message = "This priority is turned away for now, by an operator's setting."
	case d.Reason == admission.ReasonBackendQueue, d.Reason == admission.ReasonQueueFull:
		message = "Too many requests wait for the pools, and this priority is shed for now."
	}
	return &problem{
		status: http.StatusServiceUnavailable, retry: e.RetryAfter(), retryable: true,
		body:   openai.ErrorBody{Message: message, Type: "overloaded_error", Code: "shed"},
		header: [2]string{"X-Shed-Reason", e.Decision.String()},
	}
}

func noBackend() *problem {
	return &problem{
		status: http.StatusServiceUnavailable, retry: jitter(time.Second), retryable: true,
		body: openai.ErrorBody{Message: "No backend can take this request now.", Type: "overloaded_error", Code: "no_backend"},
	}
}

func exhaustedProblem(e *dispatch.ExhaustedError) *problem {
	switch {
	case e.AllBusy:
		return &problem{
			status: http.StatusServiceUnavailable, retry: jitter(max(e.RetryAfter, time.Second)), retryable: true,
			body: openai.ErrorBody{Message: "All backends are busy.", Type: "overloaded_error", Code: string(engine.Backpressure)},
		}
	case e.Last.Kind == engine.Refused, e.Last.Kind == engine.Silent: // as for whoever comes now
		return noBackend()
	}
	return failureProblem(e.Last)
}

func failureProblem(f *engine.Failure) *problem {
	switch f.Kind {
	case engine.Timeout, engine.Stalled, engine.Expired:
		return timedOut(f.Kind)
	case engine.Silent:
		return timedOut(engine.Timeout)
	case engine.Rejected:
		return rejected(f)
	case engine.TooLarge: // a retry would generate it once more
		return &problem{status: http.StatusBadGateway, body: openai.ErrorBody{
			Message: "The answer is larger than limits.response_bytes of this gateway. Ask for a shorter one.", Type: "server_error", Code: string(f.Kind),
		}}
	case engine.Unauthorized: // no 401 or 403: the client's own key is good, and a retry does not change the pool's
		return &problem{status: http.StatusBadGateway, body: openai.ErrorBody{
			Message: "The gateway has no access to the backends of this model. An operator of the gateway must fix that; your API key is not the cause.",
			Type:    "server_error", Code: string(f.Kind),
		}}
	}
	return &problem{
		status: http.StatusBadGateway, retryable: true,
		body: openai.ErrorBody{Message: "All tries to get an answer failed.", Type: "server_error", Code: string(f.Kind)},
	}
}

// rejected forwards a backend's refusal of the request. A refusal that the gateway's own configuration caused
// is hidden from the client.
func rejected(f *engine.Failure) *problem {
	switch f.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		if f.Path != "" && (f.Fault == nil || !strings.Contains(strings.ToLower(f.Fault.Message), "model")) { // the path, not the model, is unknown
			return invalid(http.StatusNotFound, errNotFound.body.Code, "The engines of this model do not serve "+f.Path+".")
		}
		return hidden(f)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return hidden(f)
	}
	message := "The backend refused the request."
	if f.Fault != nil && f.Fault.Message != "" {
		message = f.Fault.Message
	}
	p := invalid(f.Status, string(f.Kind), message)
	if f.Fault != nil {
		p.body.Param = f.Fault.Param
		p.body.Code = cmp.Or(f.Fault.Code, p.body.Code)
	}
	return p
}

// hidden is a refusal that the client has not caused.
func hidden(f *engine.Failure) *problem {
	return &problem{status: http.StatusBadGateway, body: openai.ErrorBody{
		Message: "The backend refused the gateway's request.", Type: "server_error", Code: string(f.Kind),
	}}
}

func timedOut(kind engine.FailureKind) *problem {
	return &problem{
		status: http.StatusGatewayTimeout, retryable: kind == engine.Timeout,
		body: openai.ErrorBody{Message: "The answer did not come in time.", Type: "timeout_error", Code: string(kind)},
	}
}

// jitter spreads retries: it adds up to 50 %.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+time.Second) }

// clip bounds external text for a message or a log field.
func clip(s string) string { return clipTo(s, 128) }

func clipTo(s string, maximum int) string {
	if len(s) > maximum {
		return s[:maximum] + "…"
	}
	return s
}

// fail answers an error: with its status before the first byte. After the first byte it sends an error event
// in a stream, and always aborts the connection, so that no client mistakes the answer for a complete one.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, l *accessRecord, err error) {
	l.err = err
	if shed, ok := errors.AsType[*admission.ShedError](err); ok {
		d := shed.Decision
		g.metrics.shed.WithLabelValues(d.Class.String(), d.Pool, d.Reason).Inc()
	}
	if clientLeft(r.Context()) && !errors.Is(err, errBodyTimeout) { // the server also ends the context when it cannot read a body
		l.code = statusGone
		panic(http.ErrAbortHandler)
	}
	p := endOf(r.Context(), err)
	if l.out != nil {
		l.out.stop()
	}
	if l.out != nil && l.out.began {
		l.code = statusBroken
		l.out.breakOff(p)
		panic(http.ErrAbortHandler)
	}
	p = l.inOwnNames(p)
	if p.retryable && p.status >= http.StatusInternalServerError && p != errGoing {
		told := *p
		told.retry, told.retryable = g.opts.Ledger.AdviseRetry(l.Caller.Tenant, isRetry(r.Header), p.retry)
		p = &told
	}
	p = l.api.inOwnStatus(p)
	l.code = p.status
	rc := http.NewResponseController(w)
	if r.ContentLength != 0 && !l.bodyRead {
		_ = rc.SetReadDeadline(time.Now().Add(leftoverTimeout)) // the refusal must not wait for the rest of the body
	}
	_ = rc.SetWriteDeadline(time.Now().Add(g.timeouts("").Write))
	told := headers{to: w.Header()}
	told.tell(&l.Record)
	writeProblemAs(w, p, l)
}

// wouldFailAgain reports whether an identical request would fail in the same way.
func wouldFailAgain(err error) bool {
	p := problemOf(err)
	status := p.status
	return p.body.Code == string(engine.TooLarge) || status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// endOf returns the problem that a client sees for an error that ends its request, whose context is ctx or a child of it.
func endOf(ctx context.Context, err error) *problem {
	if context.Cause(ctx) == errDraining {
		return errGoing
	}
	return problemOf(err)
}

// wholeSeconds rounds a wait up to whole seconds for Retry-After: 1 second to 31 days, a month's budget.
func wholeSeconds(d time.Duration) int {
	const month = 31 * 24 * 60 * 60
	return int(min(max((d+time.Second-1)/time.Second, 1), month))
}

// writeProblemAs refuses a request in the form of its API.
func writeProblemAs(w http.ResponseWriter, p *problem, l *accessRecord) {
	if l.api == nil {
		writeProblem(w, p)
		return
	}
	writeHead(w, p)
	_, _ = w.Write(l.api.ErrorBody(nil, p.status, p.body, l.requestID())) // the client may have disconnected
}

// writeProblem refuses a request in OpenAI's form.
func writeProblem(w http.ResponseWriter, p *problem) {
	writeHead(w, p)
	_, _ = w.Write(p.body.Append(nil)) // the client may have disconnected
}

// writeHead writes the status and the headers of a refusal.
func writeHead(w http.ResponseWriter, p *problem) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if p.retry > 0 {
		wait := p.retry
		if p.status != http.StatusTooManyRequests {
			wait = min(wait, maxObeyed)
		}
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
	}
	if p.retried() {
		h.Set("X-Should-Retry", strconv.FormatBool(p.retryable))
	}
	if p.header[0] != "" {
		h.Set(p.header[0], p.header[1])
	}
	w.WriteHeader(p.status)
}
