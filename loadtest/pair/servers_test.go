package pair

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/foregate/foregate/gateway/demo"
)

// fronted puts a server in front of an engine. It answers a request itself if own returns true.
func fronted(t *testing.T, e demo.Engine, own func(http.ResponseWriter, *http.Request) bool) demo.Engine {
	t.Helper()
	to, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		Transport: &http.Transport{DisableKeepAlives: true}, // the simulator closes idle connections after 5 s, and a POST is not sent again
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !own(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	e.URL = server.URL
	return e
}

// body reads the body of a request, and leaves it to be read again.
func body(t *testing.T, r *http.Request) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Log(err) // a client that hung up
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return string(text)
}
