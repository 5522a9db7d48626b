package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/gateway/upload"
)

// BenchmarkReadBody is what it takes to read a body, without the network.
func BenchmarkReadBody(b *testing.B) {
	for _, size := range []int{200, 1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			sent := bytes.Repeat([]byte("x"), size)
			rc := http.NewResponseController(badWriter{httptest.NewRecorder()})
			src := bytes.NewReader(sent)
			r := httptest.NewRequest(http.MethodPost, "/", src)
			gate := upload.New(upload.Options{Uploads: 1, Requests: 1, Bytes: 10 << 20, Registerer: prometheus.NewRegistry()})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(sent)
				memory, err := gate.Begin("acme", int64(size))
				if err != nil {
					b.Fatal(err)
				}
				reader := bodyReader{max: 1 << 20, timeouts: DefaultTimeouts(), charge: memory.Charge, grow: memory.Grow}
				if body, err := reader.read(rc, r); err != nil || len(body) != size {
					b.Fatal(len(body), err)
				}
				memory.Release()
			}
		})
	}
}
