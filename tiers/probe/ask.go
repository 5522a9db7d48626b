package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes. The longest is the scores of
	// some 650 tokens with one alternative each: about 110 kB.
	maxAnswer = 4 << 20
)

// Spent is what a probe has cost an engine, in tokens, by the engine's own count where it
// tells one.
type Spent struct{ Prompt, Generated int }

// asker asks one engine.
type asker struct {
	transport  http.RoundTripper
	timeout    time.Duration // of each question
	url, model string
	engine     dialect.Kind // by whose rules it is asked
	priority   *int64
	spent      Spent
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

// post asks a question that is a JSON object, with the model's name and the pool's
// priority added.
func (a *asker) post(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	body, err := a.encode(question)
	if err != nil {
		return nil, err
	}
	return a.send(ctx, http.MethodPost, path, body)
}

// encode adds the model's name, and the pool's priority where the engine knows it.
func (a *asker) encode(question map[string]any) ([]byte, error) {
	question["model"] = a.model
	if p := a.dialect().EnginePriority(a.priority); p != nil {
		question["priority"] = *p
	}
	return json.Marshal(question)
}

// request makes a request.
func (a *asker) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "foregate-probe")
	return req, nil
}

// send asks and returns the body of an answer with status 200, within the timeout.
func (a *asker) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("no answer to %s within %v", path, a.timeout))
	defer cancel()
	req, err := a.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	status, got, err := a.receive(req)
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
		return nil, &refusal{status, words(got)}
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

// receive reads at most a byte more than maxAnswer.
func (a *asker) receive(req *http.Request) (status int, body []byte, err error) {
	resp, err := a.transport.RoundTrip(req) // not a client: a redirect is an answer other than 200
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing to be done about it
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	return resp.StatusCode, body, err
}
