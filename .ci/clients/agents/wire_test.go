package agents

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// exchange is one request of a program, and what came of it.
type exchange struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	Status       int
	Judged       string // the answer's X-Acceptance
	Answer       []byte
}

// wire is a proxy before the gateway that keeps what passes.
type wire struct {
	url string

	mu  sync.Mutex
	all []exchange
}

func newWire(t *testing.T, gateway string) *wire {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e := exchange{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Status: http.StatusOK}
		copied := &copied{ResponseWriter: rw, e: &e}
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, e)
		}()
		r.Header.Del("Accept-Encoding")
		proxy.ServeHTTP(copied, r)
	}))
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

// exchanges are those so far.
func (w *wire) exchanges() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]exchange(nil), w.all...)
}

// copied is a response whose status and body are kept.
type copied struct {
	http.ResponseWriter
	e *exchange
}

// WriteHeader implements [http.ResponseWriter].
func (c *copied) WriteHeader(status int) {
	c.e.Status, c.e.Judged = status, c.Header().Get("X-Acceptance")
	c.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (c *copied) Write(p []byte) (int, error) {
	c.e.Answer = append(c.e.Answer, p...)
	return c.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] flush.
func (c *copied) Unwrap() http.ResponseWriter { return c.ResponseWriter }
