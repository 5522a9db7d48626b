package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	calls "github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes. The longest is /metrics, about 60 kB.
	maxAnswer = 4 << 20
	// longest bounds a question whose answer goes on and on, in times of the idle limit.
	longest = 10
	// maxLine bounds what is kept of an engine's own words, in bytes.
	maxLine = 200
)

// asker asks one engine.
type asker struct {
	transport   http.RoundTripper
	timeout     time.Duration // how long it may say nothing
	url, model  string
	engine      dialect.Kind // by whose rules it is asked
	priority    *int64
	upstream    calls.Upstream // asks as a request does; nil: it is not asked so
	credentials *credentials.Credentials
	unpinned    bool // it refuses template arguments
}

// dialect is what the engine differs in.
func (a *asker) dialect() *dialect.Dialect { return dialect.Of(a.engine) }

// refusal is an answer with a status other than 200.
type refusal struct {
	status  int
	message string // the engine's, bounded
}

func (r *refusal) Error() string {
	if r.message == "" {
		return fmt.Sprintf("status %d", r.status)
	}
	return fmt.Sprintf("status %d: %s", r.status, r.message)
}

// unreadable is an answer with status 200 that does not say what it should.
type unreadable struct{ why string }

func (u *unreadable) Error() string { return u.why }

// fails reports whether err says nothing of what the engine can do, only that it cannot
// now: no answer, too late, too busy, or an error of its own.
func fails(err error) bool {
	if credentials.RefusalOf(err) != nil {
		return true
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status == http.StatusTooManyRequests || r.status == http.StatusRequestTimeout ||
			r.status >= 500 && r.status != http.StatusNotImplemented
	}
	_, read := errors.AsType[*unreadable](err)
	return err != nil && !read
}

// absent reports whether err says that there is no such route.
func absent(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed || r.status == http.StatusNotImplemented)
}

// post asks a question that is a JSON object, with the model's name added, and the pool's priority where the engine
// knows it.
func (a *asker) post(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	question["model"] = a.model
	if p := a.dialect().EnginePriority(a.priority); p != nil {
		question["priority"] = *p
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	return a.send(ctx, http.MethodPost, path, body)
}

// pinned are arguments of templates that put a date into the prompt. Llama 3's take this;
// those that ask the clock themselves (strftime_now) cannot be pinned, and their
// fingerprint changes every day: a day later two pools are unlike until both were probed
// again.
var pinned = map[string]any{"date_string": "26 Jul 2024"}

// templated asks a question with messages, with template arguments if the engine takes them.
func (a *asker) templated(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	own, _ := question["chat_template_kwargs"].(map[string]any)
	if !a.unpinned && a.dialect().Members.TemplateArgs {
		q, arguments := maps.Clone(question), maps.Clone(pinned)
		maps.Copy(arguments, own)
		q["chat_template_kwargs"] = arguments
		body, err := a.post(ctx, path, q)
		if r, refused := errors.AsType[*refusal](err); !refused || r.status != http.StatusBadRequest {
			return body, err
		}
	}
	body, err := a.post(ctx, path, question)
	a.unpinned = a.unpinned || err == nil && own == nil
	return body, err
}

// send asks and returns the body of an answer with status 200. Whatever comes of it keeps the question alive: it fails when
// nothing has come for the timeout.
func (a *asker) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(a.timeout, func() { cancel(fmt.Errorf("%s: nothing came for %v", path, a.timeout)) })
	defer silent.Stop()
	ctx, end := context.WithTimeoutCause(ctx, longest*a.timeout, fmt.Errorf("%s: no end within %v", path, longest*a.timeout))
	defer end()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "foregate-probe")
	status, got, err := a.receive(req, func() { silent.Reset(a.timeout) })
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case denied(path, status) != nil:
		return nil, fmt.Errorf("%s: %w", path, denied(path, status))
	case credentials.RefusedBy(status) != nil:
		return nil, &refusal{status: status} // its words may repeat a key
	case status != http.StatusOK:
		return nil, &refusal{status, line(openai.ParseFault(got).Message)}
	case len(got) > maxAnswer:
		return nil, &unreadable{fmt.Sprintf("%s answers with more than %d bytes", path, maxAnswer)}
	}
	return got, nil
}

// denied returns the refusal of the pool's credentials, nil if a status is none. Behind some proxies only the paths of
// requests are open: 403 for another path says that the engine lacks it.
func denied(path string, status int) *credentials.Refusal {
	if !strings.HasPrefix(path, "/v1/") || status == http.StatusForbidden && path == "/v1/models" {
		return nil
	}
	return credentials.RefusedBy(status)
}

// receive reads at most a byte more than maxAnswer. It calls alive for whatever comes.
func (a *asker) receive(req *http.Request, alive func()) (status int, body []byte, err error) {
	resp, err := a.transport.RoundTrip(req) // not a client: a redirect is an answer other than 200
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing to be done about it
	alive()
	body, err = io.ReadAll(io.LimitReader(lively{resp.Body, alive}, maxAnswer+1))
	return resp.StatusCode, openai.TrimByteOrderMark(body), err
}

// lively calls alive for whatever is read.
type lively struct {
	io.Reader
	alive func()
}

func (l lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// line makes one printable line of at most maxLine bytes.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s[:min(len(s), 4*maxLine)], func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxLine)], "")
}
