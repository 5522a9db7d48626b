package discover

import (
	"net"
	"testing"
)

func TestBackendsOfAPoolWithTLSAreFoundByHTTPS(t *testing.T) {
	dns := &answers{addrs: []string{"10.0.0.1"}, srv: []*net.SRV{{Target: "gpu-0.internal.", Port: 8000}}}
	secure := func(raw string) Source {
		s, err := New(raw, Options{Resolver: dns, HTTPS: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	finds(t, secure("dns://gpu.internal:8000"), "https://10.0.0.1:8000")
	finds(t, secure("srv://_vllm._tcp.gpu.internal"), "https://gpu-0.internal:8000")
}
