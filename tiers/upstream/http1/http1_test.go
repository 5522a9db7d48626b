package http1

import (
	"bytes"
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
			resp, got, err := post(t, tr, &Request{Base: srv.URL, Path: "/x", Body: body})
			if err != nil || resp.Status != 200 || !bytes.Equal(body, got) || resp.Reused != (size > 0) {
				t.Errorf("%v, %d bytes: status %d, %d bytes, reused %v: %v", streamed, size, resp.Status, len(got), resp.Reused, err)
			}
		}
		srv.Close()
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

func TestAClosedTransportKeepsNothing(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer srv.Close()
	tr := New(Options{})
	var resp Response
	if err := tr.Do(t.Context(), &Request{Base: srv.URL, Path: "/"}, &resp); err != nil {
		t.Fatal(err)
	}
	tr.Close()
	close(release)
	if b, err := io.ReadAll(resp.Body); string(b) != "a" || err != nil {
		t.Errorf("an answer under way: %q, %v", b, err)
	}
	if len(tr.pools.byKey) != 0 {
		t.Error("its connection is kept")
	}
	if err := tr.Do(t.Context(), &Request{Base: srv.URL, Path: "/"}, &resp); err != ErrClosed {
		t.Errorf("another request: %v", err)
	}
}

func TestAReadBehindTheCloseIsAnError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ab") }))
	defer srv.Close()
	tr := newTransport(t, Options{})
	for _, read := range []int{0, 1, 2} {
		var resp Response
		if err := tr.Do(t.Context(), &Request{Base: srv.URL, Path: "/"}, &resp); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(resp.Body, make([]byte, read))
		resp.Body.Close()
		resp.Body.Close()
		want := ErrClosed
		if read == 2 {
			want = io.EOF
		}
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != want {
			t.Errorf("behind %d bytes: %d, %v", read, n, err)
		}
	}
}
