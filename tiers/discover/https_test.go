package discover

import (
	"net"
	"os"
	"path/filepath"
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
	list := func(text string) Source {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return secure("file://" + path)
	}
	finds(t, list("https://a:8000\n"), "https://a:8000")
	finds(t, list(`[{"targets":["a:8000"]},{"targets":["b:8000"],"labels":{"__scheme__":"https"}}]`), "https://a:8000", "https://b:8000")
	fails(t, list("https://a:8000\nhttp://b:8000\n"), ":2: want https://: the pool has tls")
	fails(t, list(`[{"targets":["a:8000"],"labels":{"__scheme__":"http"}}]`), "want https://: the pool has tls")
}
