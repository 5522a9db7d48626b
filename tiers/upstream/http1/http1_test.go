package http1

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// newTransport is a Transport that is closed at the test's end.
func newTransport(t testing.TB, o Options) *Transport {
	t.Helper()
	tr := New(o)
	t.Cleanup(tr.Close)
	return tr
}

// post sends a request and reads the whole answer.
func post(t testing.TB, tr *Transport, req *Request) (*Response, []byte, error) {
	t.Helper()
	resp := new(Response)
	if err := tr.Do(t.Context(), req, resp); err != nil {
		return resp, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

func TestBodiesOfAllSizesComeBackAsSent(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Seen", fmt.Sprint(r.ContentLength, r.URL, r.Header["A"], r.Host))
			if streamed {
				_ = http.NewResponseController(w).Flush()
				for len(body) > 3000 {
					_, _ = w.Write(body[:3000])
					body = body[3000:]
					_ = http.NewResponseController(w).Flush()
				}
			}
			_, _ = w.Write(body)
		}))
		tr := newTransport(t, Options{})
		for _, size := range []int{0, 1, 100, 2047, 2048, 2049, 4096, 70000, 5 << 20} {
			body := bytes.Repeat([]byte("a\nb"), size/3+1)[:size]
			resp, got, err := post(t, tr, &Request{Base: srv.URL, Path: "/x", Header: http.Header{"A": {"1", "2"}}, Body: body})
			if err != nil || resp.Status != 200 || !bytes.Equal(body, got) || resp.Reused != (size > 0) {
				t.Errorf("%v, %d bytes: status %d, %d bytes, reused %v: %v", streamed, size, resp.Status, len(got), resp.Reused, err)
			}
		}
		srv.Close()
	}
}

func TestTheEndOfAContextEndsAnExchangeAtOnce(t *testing.T) {
	left := make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	defer srv.Close()
	tr := newTransport(t, Options{})
	for _, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancel(t.Context())
		resp := new(Response)
		go cancel()
		err := tr.Do(ctx, &Request{Base: srv.URL, Path: path}, resp)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	tr := newTransport(b, Options{})
	req := &Request{Base: srv.URL, Path: "/x", Body: bytes.Repeat([]byte("a"), 1024)}
	buf := make([]byte, 2048)
	b.ReportAllocs()
	for b.Loop() {
		var resp Response
		if err := tr.Do(b.Context(), req, &resp); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, buf[:1024]); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}
