package cost

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// yardstickRole is what the gateway is measured by: the standard library's reverse proxy with a tuned transport, and nothing
// else. It flushes where a user's would: streams at once (ReverseProxy does so for text/event-stream), other answers when they
// end. Its argument is the engine's URL.
func yardstickRole() int {
	if err := serveYardstick(os.Args[1]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "yardstick:", err)
	}
	return 1
}

func serveYardstick(upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr(), admin.Addr())
	go exitAtEOF()
	go serveMallocs(admin)
	proxy := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Body = &wholeBody{ReadCloser: r.Out.Body}
		},
		BufferPool: &copyBuffers{},
		ErrorLog:   log.New(os.Stderr, "yardstick: ", 0),
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 512, MaxConnsPerHost: 4096, IdleConnTimeout: 4 * time.Second,
			DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
		},
	}}
	return proxy.Serve(ln)
}

// serveMallocs serves the metrics of the process's memory, at any path.
func serveMallocs(ln net.Listener) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector())
	metrics := &http.Server{Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), ReadHeaderTimeout: 5 * time.Second}
	_ = metrics.Serve(ln) // as long as the process lives
}

// wholeBody remembers that a request's body has ended. The transport reads once more behind the end. By then the answer may have
// begun and the server may have closed the body; the transport takes "invalid Read on closed Body" for a fault and breaks the
// stream. Without this type the reverse proxy loses one stream in some thousands.
type wholeBody struct {
	io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *wholeBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	b.ended = errors.Is(err, io.EOF)
	return n, err
}

// copyBuffers lends the proxy its buffers.
type copyBuffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *copyBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 64<<10)
}

// Put implements httputil.BufferPool.
func (b *copyBuffers) Put(p []byte) { b.pool.Put(&p) }
