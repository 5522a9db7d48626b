package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// problem is an error as the client gets it.
type problem struct {
	status    int
	body      openai.ErrorBody
	retry     time.Duration  // Retry-After; 0 is none
	retryable bool           // a retry may help: what a 429 or 5xx says in X-Should-Retry
	header    [2]string      // one more header
	more      map[string]any // more members of the body, beside "error"
}

// Error makes a problem an error, so that handlers can return the predefined ones.
func (p *problem) Error() string { return p.body.Message }

// after returns the problem with a time to wait before a retry.
func (p *problem) after(wait time.Duration) *problem {
	p.retry = wait
	return p
}

// codes are the rows of [ErrorCodes] by their codes.
var codes = func() map[string]ErrorCode {
	all := map[string]ErrorCode{}
	for _, c := range ErrorCodes {
		all[c.Code] = c
	}
	return all
}()

// refuse returns the problem with a code of [ErrorCodes], and its first status.
func refuse(code, message string) *problem { return refuseWith(codes[code].Statuses[0], code, message) }

// refuseWith returns a problem with one of the statuses of its code. The code may also be an engine's own.
func refuseWith(status int, code, message string) *problem {
	c := codes[code]
	return &problem{status: status, retryable: status >= 500 && !c.Final, body: openai.ErrorBody{
		Message: message, Type: cmp.Or(c.Type, typeOf(status)), Code: code,
	}}
}

// typeOf is OpenAI's type of the errors with a status.
func typeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusInternalServerError, http.StatusBadGateway:
		return "server_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	return "invalid_request_error"
}

// The refusals without numbers.
var (
	errNotFound    = refuse("unknown_url", "There is nothing at this path. See GET /v1/models for the models served here.")
	errOutside     = refuse("unknown_url", "The target of this model is hosted by a provider, to which this path is not passed.")
	errMethod      = refuse("method_not_allowed", "This path does not take this method.")
	errHeaders     = refuse("too_many_headers", fmt.Sprintf("A request may have at most %d header lines.", maxHeaders))
	errAbsoluteURI = refuse("bad_request_line", "The request line must name a path, not a whole URL.")
	errEncoding    = refuse("unsupported_encoding", "A Content-Encoding is not accepted; send the body as it is.")
	errContentType = refuse("unsupported_media_type", "Content-Type must be application/json, in UTF-8.")
	errTranslation = refuse("body_too_large", "To translate this body into a chat completion takes more memory than this gateway has for one tenant. Send less, or a chat completion.")
	errBadBody     = refuse("bad_body", "The request body could not be read whole.")
	errBodyTimeout = refuse("body_timeout", "The request body did not come in time.")
	errNotCached   = refuse("not_cached", "There is no cached answer to this request that will do, and only-if-cached allows no other.")
	errOverloaded  = refuse("overloaded", "The gateway has too many requests under way.").after(time.Second)
	// errGoing: another replica answers, so a retry is always welcome and counts against no retry budget.
	errGoing = refuse("gateway_draining", "This replica is shutting down.").after(time.Second)
	errPanic = refuse("internal_error", "The gateway failed to handle this request.")
	// errBadAnswer is the end of a request whose answer has no form in the API of its client.
	errBadAnswer = refuse(string(engine.BadResponse), "The backend's answer is not what the API promises.")
	errBroken    = refuse(string(engine.Cut), "The answer broke off.")

	// Of the admin listener.
	errNoPath   = refuse("unknown_url", "There is nothing at this path.")
	errAction   = refuse("action_failed", "The action failed. See the gateway's log for the reason.")
	errTooMuch  = refuse("too_many_rows", fmt.Sprintf("The usage has more than %d rows. Ask for fewer days, or for fewer of tenant, route and day in by.", ledger.MaxReportRows))
	errNoUsage  = refuse("usage_away", "Usage cannot be read: Redis does not answer. Replicas keep what they count and write it when Redis is back.")
	errNoConfig = refuse("no_config_file", "This replica was not started with a configuration file, so there is nothing to read again.")
)

// sentinels are the errors without details.
var sentinels = []struct {
	err error
	as  *problem
}{
	{tiers.ErrNotShareable, errBroken}, {tiers.ErrNotCached, errNotCached},
	{context.DeadlineExceeded, timedOut(engine.Expired)},
	{ledger.ErrTooManyRows, errTooMuch}, {ledger.ErrAway, errNoUsage}, {ErrNoConfigFile, errNoConfig},
}

// unknownModel refuses a model that no route has.
func unknownModel(name string) *problem {
	return refuse("model_not_found", fmt.Sprintf("The model %q does not exist. GET /v1/models lists those that do.", clip(name))).of("model")
}

// kinds are the errors with details.
var kinds = []func(error) *problem{
	as(func(p *problem) *problem { return p }),
	as(func(e *openai.RequestError) *problem { return refuseWith(e.Status, e.Code, e.Message).of(e.Param) }),
	as(headerProblem), as(limitProblem), as(budgetProblem), as(shortageProblem), as(shedProblem), as(exhaustedProblem), as(noBackendProblem), as(failureProblem),
	as(func(e *clientapi.EngineOnlyError) *problem { return engineOnly("", e) }), // where no engine may get the request
}

// as is a row of kinds: the problem of an error of a type, nil for others.
func as[E error](of func(E) *problem) func(error) *problem {
	return func(err error) *problem {
		if e, ok := errors.AsType[E](err); ok {
			return of(e)
		}
		return nil
	}
}

// problemOf is the error table: it maps every error of a handler to what the client sees. Details for
// operators appear only in the log.
func problemOf(err error) *problem {
	for _, kind := range kinds {
		if p := kind(err); p != nil {
			return p
		}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.as
		}
	}
	return errPanic
}

// of returns the problem about a field, a header or a parameter; "" is none.
func (p *problem) of(param string) *problem {
	p.body.Param = param
	return p
}

// badParam refuses a query parameter, or the whole query if name is "".
func badParam(name, message string) *problem {
	if name != "" {
		message = name + ": " + message
	}
	return refuse("bad_parameter", message).of(name)
}

func headerProblem(e *identity.Error) *problem {
	p := refuse("bad_header", e.Error())
	switch e.Kind {
	case identity.Unauthorized:
		p = refuse("invalid_api_key", e.Error())
	case identity.Forbidden:
		p = refuse("forbidden", e.Error())
	}
	return p.of(e.Header)
}

// shortageProblem refuses a body that was not read. If the tenant itself holds too much, the client should slow
// down; otherwise the gateway is overloaded.
func shortageProblem(e *shortage) *problem {
	switch {
	case e.ofTenant:
		p := refuse("tenant_share", "Too many requests at once, or too large ones: they already hold the share of this gateway that one tenant may have. Try again when some of them have ended.")
		p.retryable = true
		return p.after(jitter(time.Second))
	case e.what == "requests":
		return errOverloaded
	}
	return refuse("upload_overloaded", "The gateway holds as many request bodies as it has memory for.").after(jitter(time.Second))
}

func shedProblem(e *admission.ShedError) *problem {
	message := "The pools are short of memory and this priority is shed for now."
	switch {
	case e.Threshold == 0:
		message = "This priority is turned away for now, by an operator's setting."
	case e.Reason == admission.ReasonBackendQueue, e.Reason == admission.ReasonBackendDelay, e.Reason == admission.ReasonQueueFull:
		message = "Too many requests wait for the pools, and this priority is shed for now."
	}
	p := refuse("shed", message).after(e.RetryAfter)
	p.header = [2]string{"X-Shed-Reason", e.Header()}
	return p
}

func noBackendProblem(e *pool.NoBackendError) *problem {
	switch {
	case e.TooLong && e.Answers > 0:
		return refuse("invalid_value", fmt.Sprintf("The %d answers together may need more memory than the backends of this model have for one request. Ask for fewer at once, or for shorter ones.", e.Answers))
	case e.TooLong:
		return refuse("context_length_exceeded", fmt.Sprintf("The prompt has %d tokens, and the backends of this model have memory for %d.", e.Prompt, e.Largest))
	}
	return noBackend()
}

func noBackend() *problem {
	return refuse("no_backend", "No backend can take this request now.").after(jitter(time.Second))
}

func exhaustedProblem(e *dispatch.ExhaustedError) *problem {
	switch {
	case e.AllBusy:
		return refuseWith(http.StatusServiceUnavailable, string(engine.Backpressure), "All backends are busy.").after(jitter(max(e.RetryAfter, time.Second)))
	case e.Last.Kind == engine.Refused, e.Last.Kind == engine.Silent: // as for whoever comes now
		return noBackend()
	}
	return failureProblem(e.Last)
}

func failureProblem(f *engine.Failure) *problem {
	message := "All tries to get an answer failed."
	switch f.Kind {
	case engine.Timeout, engine.Stalled, engine.Expired:
		return timedOut(f.Kind)
	case engine.Silent:
		return timedOut(engine.Timeout)
	case engine.Rejected:
		return rejected(f)
	case engine.TooLarge: // a retry would generate it once more
		message = "The answer is larger than limits.response_bytes of this gateway. Ask for a shorter one."
	case engine.Unauthorized: // no 401 or 403: the client's own key is good, and a retry does not change the pool's
		message = "The gateway has no access to the backends of this model. An operator of the gateway must fix that; your API key is not the cause."
	}
	return refuseWith(http.StatusBadGateway, string(f.Kind), message)
}

// rejected forwards a backend's refusal of the request. A refusal that the gateway's own configuration caused
// is hidden from the client.
func rejected(f *engine.Failure) *problem {
	hidden := refuseWith(http.StatusBadGateway, string(f.Kind), "The backend refused the gateway's request.")
	switch f.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		if f.Path != "" && (f.Fault == nil || !strings.Contains(strings.ToLower(f.Fault.Message), "model")) { // the path, not the model, is unknown
			return refuse("unknown_url", "The engines of this model do not serve "+f.Path+".")
		}
		return hidden
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return hidden
	}
	p := refuseWith(f.Status, string(f.Kind), "The backend refused the request.")
	if f.Fault != nil {
		p.body.Message = cmp.Or(f.Fault.Message, p.body.Message)
		p.body.Code = cmp.Or(f.Fault.Code, p.body.Code)
		p.body.Param = f.Fault.Param
	}
	return p
}

func timedOut(kind engine.FailureKind) *problem {
	return refuse(string(kind), "The answer did not come in time.")
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
		g.metrics.shed.WithLabelValues(shed.Class.String(), shed.Pool, shed.Reason).Inc()
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
	_ = rc.SetWriteDeadline(time.Now().Add(g.opts.Settings.Snapshot().Global().Client.Write))
	told := headers{to: w.Header()}
	told.tell(&l.Record)
	writeProblemAs(w, p, l)
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
	body := p.body.Append(nil)
	if p.more != nil {
		more, err := json.Marshal(p.more)
		if err != nil {
			panic(err) // texts and numbers can be encoded
		}
		body = append(append(body[:len(body)-1], ','), more[1:]...)
	}
	_, _ = w.Write(body) // the client may have disconnected
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
	if p.status >= 500 || p.status == http.StatusTooManyRequests { // which the SDKs retry by default
		h.Set("X-Should-Retry", strconv.FormatBool(p.retryable))
	}
	if p.header[0] != "" {
		h.Set(p.header[0], p.header[1])
	}
	w.WriteHeader(p.status)
}
