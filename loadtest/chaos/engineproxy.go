package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// EngineProxy stands before a simulator and can answer wrong metrics in ways that the
// simulator cannot.
type EngineProxy struct {
	URL      string
	Answered atomic.Int64 // requests for generation that it passed on

	sim      *vllmsim.Server
	server   *http.Server
	fault    atomic.Pointer[MetricsFault]
	observer atomic.Pointer[Observer]
	ended    chan struct{}
	once     sync.Once
}

// MetricsFault answers GET /metrics in the place of a simulator; truth asks that.
type MetricsFault func(w http.ResponseWriter, r *http.Request, truth func() []byte)

// Observer is told of each POST before it is passed on.
type Observer func(header http.Header, body []byte)

// NewEngineProxy starts one before a simulator; Close ends it and waits.
func NewEngineProxy(sim *vllmsim.Server) (*EngineProxy, error) {
	to, err := url.Parse(sim.URL())
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	f := &EngineProxy{URL: "http://" + l.Addr().String(), sim: sim, ended: make(chan struct{})}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		Transport:    &http.Transport{MaxIdleConnsPerHost: maxInFlight, DisableCompression: true},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     nil,
	}
	f.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := f.fault.Load(); fault != nil && r.URL.Path == "/metrics" {
			(*fault)(w, r, f.truth)
			return
		}
		if r.Method == http.MethodPost {
			f.Answered.Add(1)
			f.listen(r)
		}
		pass.ServeHTTP(w, r)
	})}
	go func() {
		defer close(f.ended)
		_ = f.server.Serve(l) // until Close
	}()
	return f, nil
}

// listen tells the tap of a request whose length is told, and puts the body back.
func (f *EngineProxy) listen(r *http.Request) {
	tap := f.observer.Load()
	if tap == nil || r.ContentLength < 0 || r.ContentLength > maxAnswer {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway is gone, and whoever reads on learns that
	}
	(*tap)(r.Header, body)
	r.Body = io.NopCloser(bytes.NewReader(body))
}

// Observe has it tell of POSTs from now on.
func (f *EngineProxy) Observe(t Observer) { f.observer.Store(&t) }

// SetMetrics makes its metrics wrong from now on; nil is the truth.
func (f *EngineProxy) SetMetrics(l MetricsFault) {
	if l == nil {
		f.fault.Store(nil)
		return
	}
	f.fault.Store(&l)
}

// truth is the simulator's own page of metrics.
func (f *EngineProxy) truth() []byte {
	page, _ := process.Fetch(context.Background(), f.sim.URL()+"/metrics") // ours always answers
	return []byte(page)
}

// Close ends it and waits. It may be called again.
func (f *EngineProxy) Close() error {
	var err error
	f.once.Do(func() { err = f.server.Close() })
	<-f.ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// usageSays replaces the KV usage in a page by another value.
func usageSays(value string) MetricsFault {
	return func(w http.ResponseWriter, _ *http.Request, truth func() []byte) {
		var out []byte
		for line := range bytes.Lines(truth()) {
			if bytes.HasPrefix(line, []byte("vllm:kv_cache_usage_perc")) {
				line = append(append([]byte(nil), line[:bytes.LastIndexByte(line, ' ')+1]...), value+"\n"...)
			}
			out = append(out, line...)
		}
		_, _ = w.Write(out) // whoever asked may be gone
	}
}

// page answers with a status and a text.
func page(status int, text string) MetricsFault {
	return func(w http.ResponseWriter, _ *http.Request, _ func() []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // as above
	}
}

// late tells the truth too late.
func late(d time.Duration) MetricsFault {
	return func(w http.ResponseWriter, r *http.Request, truth func() []byte) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = w.Write(truth()) // as above
		case <-r.Context().Done():
		}
	}
}

// long follows the truth by so many bytes of other families; below 0 without end.
func long(n int) MetricsFault {
	return func(w http.ResponseWriter, r *http.Request, truth func() []byte) {
		_, _ = w.Write(truth()) // as above
		piece := bytes.Repeat([]byte("another_family{label=\"of nobody's\"} 1\n"), 1000)
		for sent := 0; (n < 0 || sent < n) && r.Context().Err() == nil; sent += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// frozen tells for ever what is true now.
func (f *EngineProxy) frozen() MetricsFault {
	was := f.truth()
	return func(w http.ResponseWriter, _ *http.Request, _ func() []byte) { _, _ = w.Write(was) } // as above
}
