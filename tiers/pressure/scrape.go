package pressure

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
)

// Scraper asks engines over its own HTTP client: no proxy, no redirects, no compression, a bounded body and a bounded time.
// It is safe for concurrent use. Base URLs have no trailing slash.
type Scraper struct {
	timeout time.Duration
	client  *http.Client
}

// NewScraper returns a Scraper with a connection pool of its own, which shows these credentials (nil: none). timeout is of
// one question, parsing included.
func NewScraper(timeout time.Duration, shown *credentials.Live) *Scraper {
	return &Scraper{timeout: timeout, client: &http.Client{
		Transport: credentials.NewTransports(newTransport).Of(shown.Now),
		// A redirect is a status other than 200 and so an error.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// newTransport makes the transport of one TLS identity.
func newTransport(config *tls.Config) http.RoundTripper {
	return &http.Transport{
		// The operator configured the backend's address; an environment variable must not redirect its
		// traffic.
		Proxy:           nil,
		DialContext:     (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig: config,
		// vLLM's server closes idle connections after 5 s; closing first avoids writing to one that is just
		// being closed.
		IdleConnTimeout:     4 * time.Second,
		MaxIdleConnsPerHost: 1,
		// Compression takes time of vLLM's event loop, and a small body that decompresses to a huge one would
		// take ours.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close closes the idle connections.
func (s *Scraper) Close() { s.client.CloseIdleConnections() }

// StatusError is a status other than 200.
type StatusError struct {
	Method, URL string
	Code        int
}

// Error names the URL and the code.
func (e *StatusError) Error() string { return fmt.Sprintf("%s %s: status %d", e.Method, e.URL, e.Code) }

// Unwrap returns a *[credentials.Refusal] for 401 and 403.
func (e *StatusError) Unwrap() error {
	if r := credentials.RefusedBy(e.Code); r != nil {
		return r
	}
	return nil
}

// Scrape takes a reading from baseURL + "/metrics" of an engine that has one ([dialect.Load.Reads]). now is the reading's
// time, before the request is sent, so that requests that we send meanwhile never count as included.
func (s *Scraper) Scrape(ctx context.Context, baseURL string, d *dialect.Dialect, now time.Time) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.get(ctx, baseURL+"/metrics")
	if err != nil {
		return Reading{}, err
	}
	defer closeBody(resp.Body)
	r, err := parse(resp.Body, &d.Load.Metrics, now)
	if err != nil {
		return Reading{}, fmt.Errorf("GET %s/metrics: %w", baseURL, err)
	}
	return r, nil
}

// maxIdentity bounds what is read of an answer that may tell the kind of an engine, in bytes: hosted APIs list their
// hundreds of models in about 500 kB.
const maxIdentity = 4 << 20

// Identify asks a server what kind of engine it is, each question within the timeout. The error says that it could not be
// asked now: no answer, or /v1/models answers with a refusal of the credentials or an error of the server.
func (s *Scraper) Identify(ctx context.Context, baseURL string) (dialect.Finding, error) {
	return dialect.Find(func(path string) (status int, body []byte, err error) {
		status, body, err = s.answer(ctx, baseURL+path)
		if err == nil && path == dialect.ModelsPath && cannotAnswer(status) {
			err = &StatusError{http.MethodGet, baseURL + path, status}
		}
		return status, body, err
	})
}

// cannotAnswer reports whether a status says only that the server cannot answer now, or not us.
func cannotAnswer(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented || credentials.RefusedBy(status) != nil
}

// answer asks one question.
func (s *Scraper) answer(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.do(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	defer closeBody(resp.Body)
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxIdentity)); err != nil {
		err = fmt.Errorf("GET %s: %w", url, err)
	}
	return resp.StatusCode, body, err
}

// Health requests the dialect's path of health; nil means that the server reports itself healthy. A status other than
// 200 is a *StatusError. Of an engine that may not be asked anything, nil means that it takes connections.
func (s *Scraper) Health(ctx context.Context, baseURL string, d *dialect.Dialect) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if d.Health == "" {
		return connects(ctx, baseURL)
	}
	resp, err := s.get(ctx, baseURL+d.Health)
	if err != nil {
		return err
	}
	closeBody(resp.Body)
	return nil
}

// connects reports why a server takes no TCP connection.
func connects(ctx context.Context, baseURL string) error {
	u, err := url.Parse(baseURL)
	if err != nil {
		return err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	_ = c.Close() // nothing was sent
	return nil
}

// Question is what [Scraper.Probe] asks for one token.
type Question struct {
	Model string
	Chat  bool // by a chat; outsiders are asked by one in any case
}

// Probe requests one token of the model, which a hung engine does not generate; nil means success. The
// context bounds it.
func (s *Scraper) Probe(ctx context.Context, baseURL string, q Question, d *dialect.Dialect) error {
	path, question := "/v1/completions", map[string]any{"model": q.Model, "max_tokens": 1}
	switch {
	case q.Chat || d.Kind == dialect.OpenAI: // most of them have nothing but chats
		path, question["messages"] = "/v1/chat/completions", []map[string]string{{"role": "user", "content": "1"}}
	case d.Members.IDPrompts:
		question["prompt"] = []int{1}
	default:
		question["prompt"] = "1"
	}
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	resp, err := s.do(ctx, http.MethodPost, baseURL+path, body)
	if err == nil {
		resp, err = accepted(resp)
	}
	if err != nil {
		return err
	}
	defer closeBody(resp.Body)
	if _, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return fmt.Errorf("POST %s: %w", baseURL+path, err)
	}
	return nil
}

// get returns a response whose status is 200.
func (s *Scraper) get(ctx context.Context, url string) (*http.Response, error) {
	resp, err := s.do(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return accepted(resp)
}

// agent is how the engines' logs name these requests.
const agent = "foregate-scraper"

// do sends one question; a body is JSON.
func (s *Scraper) do(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Accept", "text/plain;version=0.0.4")
	}
	req.Header.Set("User-Agent", agent)
	return s.client.Do(req)
}

// accepted returns a response with status 200, or its error.
func accepted(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode != http.StatusOK {
		closeBody(resp.Body)
		return nil, &StatusError{Method: resp.Request.Method, URL: resp.Request.URL.String(), Code: resp.StatusCode}
	}
	return resp, nil
}

// closeBody reads a little of the rest, so that the connection can be reused, but not more, so that an
// endless body cannot block us.
func closeBody(b io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, b, 4<<10) // best effort: otherwise the connection is closed
	_ = b.Close()                         // nothing can be done about an error
}
