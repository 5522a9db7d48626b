package discover

import (
	"context"
	"net"
	"testing"
)

// nameServer answers all questions with a response code, on loopback.
func nameServer(t *testing.T, code byte) *net.UDPAddr {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		question := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(question)
			if err != nil {
				return // the test is over
			}
			question[2], question[3] = question[2]|0x80, 0x80|code // a response
			_, _ = c.WriteTo(question[:n], from)
		}
	}()
	return c.LocalAddr().(*net.UDPAddr)
}

func TestANameServerThatFailsIsToldFromOneThatKnowsNoBackend(t *testing.T) {
	for code, c := range map[byte]struct {
		name string
		want bool
	}{0: {"an answer without addresses", false}, 2: {"SERVFAIL", true}, 3: {"NXDOMAIN", false}, 5: {"REFUSED", true}} {
		server := nameServer(t, code)
		resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return net.DialUDP("udp", nil, server) }}
		for _, raw := range []string{"dns://gpu.internal.:8000", "srv://_vllm._tcp.gpu.internal."} {
			s, err := New(raw, Options{Resolver: resolver})
			if err != nil {
				t.Fatal(err)
			}
			if found, err := s.Find(t.Context()); err == nil || Unanswered(err) != c.want {
				t.Errorf("%s, %s: %q, %v", raw, c.name, found, err)
			}
		}
	}
}
