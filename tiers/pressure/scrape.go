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
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
)

// Options configures a Scraper. The zero value works.
type Options struct {
	Timeout     time.Duration     // of one question, parsing included; 0 is [Timeout]
	Credentials *credentials.Live // shown with each request; nil is none
	Now         func() time.Time  // nil is time.Now
}

// Scraper takes readings over its own HTTP client: no proxy, no redirects, no
// compression, a bounded body and a bounded time. It is safe for concurrent use.
type Scraper struct {
	timeout time.Duration
	now     func() time.Time
	client  *http.Client
}

// NewScraper returns a Scraper with a connection pool of its own.
func NewScraper(o Options) *Scraper {
	if o.Now == nil {
		o.Now = time.Now
	}
	transports := credentials.NewTransports(newTransport)
	return &Scraper{timeout: cmp.Or(o.Timeout, Timeout), now: o.Now, client: &http.Client{
		Transport: transports.Of(o.Credentials.Now),
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

// Scrape takes a reading from baseURL + "/metrics" of an engine that has one ([dialect.Load.Reads]). Its At is the time before the request was sent, so that
// requests that we send meanwhile never count as included.
func (s *Scraper) Scrape(ctx context.Context, baseURL string, d *dialect.Dialect) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at := s.now()
	url := strings.TrimSuffix(baseURL, "/") + "/metrics"
	resp, err := s.get(ctx, url)
	if err != nil {
		return Reading{}, err
	}
	defer closeBody(resp.Body)
	// The context also bounds the parsing, which can take seconds for a malicious body: the parser reads a
	// few kilobytes at a time.
	r, err := parse(&cancelled{ctx: ctx, r: resp.Body}, exposition{&d.Load.Metrics, at})
	if err != nil {
		return Reading{}, fmt.Errorf("GET %s: %w", url, err)
	}
	return r, nil
}

// Health requests the dialect's path of health; nil means that the server reports itself healthy. A status other than
// 200 is a *StatusError. Of an engine that may not be asked anything, nil means that it takes connections.
func (s *Scraper) Health(ctx context.Context, baseURL string, d *dialect.Dialect) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if d.Health == "" {
		return connects(ctx, baseURL)
	}
	resp, err := s.get(ctx, strings.TrimSuffix(baseURL, "/")+d.Health)
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
	address := strings.TrimSuffix(baseURL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", agent)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	if resp, err = accepted(resp); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close() // nothing can be done about an error
	if err != io.EOF {
		return fmt.Errorf("POST %s: %w", address, err)
	}
	return nil
}

// get returns a response whose status is 200.
func (s *Scraper) get(ctx context.Context, url string) (*http.Response, error) {
	resp, err := s.request(ctx, url)
	if err != nil {
		return nil, err
	}
	return accepted(resp)
}

// request returns the response to a GET.
func (s *Scraper) request(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", agent)
	return s.client.Do(req)
}

// agent is how the engines' logs name these requests.
const agent = "foregate-scraper"

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

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
