package discover

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers is a resolver that says what it holds and notes what it was asked.
type answers struct {
	addrs []string
	srv   []*net.SRV
	err   error
	hang  bool
	asked string
}

func (a *answers) LookupHost(ctx context.Context, host string) ([]string, error) {
	a.asked = host
	if a.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.addrs, a.err
}

func (a *answers) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	a.asked = service + " " + proto + " " + name
	if a.hang {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	return "", a.srv, a.err
}

func source(t *testing.T, raw string, r Resolver) *Source {
	t.Helper()
	s, err := New(raw, Options{Resolver: r})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finds expects one answer of s.
func finds(t *testing.T, s *Source, want ...string) {
	t.Helper()
	got, err := s.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
}

func TestEveryAddressOfANameIsABackend(t *testing.T) {
	dns := &answers{addrs: []string{"10.0.0.2", "10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "fd00::1", "fe80::1%eth0", "nonsense"}}
	s := source(t, "dns://gpu.internal:8000", dns)
	finds(t, s, "http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000")
	if dns.asked != "gpu.internal" {
		t.Errorf("asked for %q", dns.asked)
	}
	finds(t, source(t, "dns://gpu.internal:80", dns), "http://10.0.0.1", "http://10.0.0.2", "http://[fd00::1]")
}

func TestAHangingNameServerHoldsForFourSeconds(t *testing.T) {
	for _, raw := range []string{"dns://gpu.internal:8000", "srv://_vllm._tcp.gpu.internal"} {
		synctest.Test(t, func(t *testing.T) {
			s := source(t, raw, &answers{hang: true})
			began := time.Now()
			if _, err := s.Find(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", raw, err)
			}
			if took := time.Since(began); took != lookupTimeout {
				t.Errorf("%s: it held for %s", raw, took)
			}
		})
	}
}

func TestOfThousandsTheSameFirstOnesAreTaken(t *testing.T) {
	dns := &answers{}
	for i := range 3000 {
		dns.addrs = append(dns.addrs, net.IPv4(10, 0, byte(i>>8), byte(i)).String())
	}
	s := source(t, "dns://gpu.internal:8000", dns)
	first, err := s.Find(t.Context())
	if err != nil || len(first) != MaxBackends || !slices.IsSorted(first) {
		t.Fatalf("%d found, %v", len(first), err)
	}
	slices.Reverse(dns.addrs)
	finds(t, s, first...)
}

func TestEveryServiceRecordIsABackendOnItsOwnPort(t *testing.T) {
	dns := &answers{srv: []*net.SRV{
		{Target: "GPU-1.internal.", Port: 8001}, {Target: "gpu-0.internal.", Port: 8000}, {Target: "gpu-0.internal.", Port: 8001},
		{Target: "gpu-0.internal", Port: 8000}, {Target: "gpu-2.internal.", Port: 80},
	}}
	s := source(t, "srv://_vllm._tcp.gpu.internal", dns)
	finds(t, s, "http://gpu-0.internal:8000", "http://gpu-0.internal:8001", "http://gpu-1.internal:8001", "http://gpu-2.internal")
	if dns.asked != "vllm tcp gpu.internal" {
		t.Errorf("asked for %q", dns.asked)
	}
}

func TestOnlyTheFirstGroupOfServiceRecordsServes(t *testing.T) {
	dns := &answers{srv: []*net.SRV{
		{Target: "spare.", Port: 8000, Priority: 20, Weight: 100}, {Target: "a.", Port: 8000, Priority: 10, Weight: 1},
		{Target: "b.", Port: 8000, Priority: 10, Weight: 65535}, {Target: "leaving.", Port: 8000, Priority: 10}, {Target: ".", Port: 8000},
	}}
	s := source(t, "srv://_vllm._tcp.gpu.internal", dns)
	finds(t, s, "http://a:8000", "http://b:8000")
	dns.srv = dns.srv[:1] // the first group is gone
	finds(t, s, "http://spare:8000")
	dns.srv = []*net.SRV{{Target: "a.", Port: 1}, {Target: "b.", Port: 1}} // no weights at all
	finds(t, s, "http://a:1", "http://b:1")
}

func TestWhatIsNoSourceIsToldHowToMendIt(t *testing.T) {
	for raw, want := range map[string]string{
		"dns://vllm.svc:8000": "", "dns://10.0.0.1:1": "", "dns://[fd00::1]:8000": "", "dns://vllm.svc.:65535": "",
		"srv://_vllm._tcp.name": "", "srv://_http-api._tcp.vllm.default.svc.cluster.local.": "",
		"": "want dns://", "vllm.svc:8000": "want dns://", "http://vllm:8000": "want dns://", "DNS://a:1": "want dns://",
		"dns://vllm.svc": "want dns://HOST:PORT", "dns://vllm.svc:0": "1 … 65535", "dns://vllm.svc:65536": "1 … 65535", "dns://:8000": "the host is missing",
		"dns://a:8000/": "1 … 65535", "dns:///a:1": "the host is missing", "dns://a b:1": "malformed", "dns://a..b:1": "malformed", "file:///etc/backends": "want dns://", "dns://u@a:8000": "the host is missing or malformed", "dns://a:1?x": "1 … 65535", "dns://-a:1": "malformed",
		"srv://vllm.svc:8000": "want srv://", "srv://_vllm._udp.name": "want srv://", "srv://_vllm._tcp.": "want srv://", "srv://_._tcp.name": "want srv://",
		"srv://_vllm._tcp.name:8000": "without a port", "srv://_a._b._tcp.name": "want srv://", "srv://_vllm._tcp.name/x": "want srv://",
	} {
		err := Check(raw)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", raw, err, want)
		}
	}
}

func TestBaseURLsHaveOneSpelling(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Host:8000/": "http://host:8000", "https://h:443": "https://h", "http://h:80/": "http://h", "http://h:443": "http://h:443",
		"http://[FD00::1]:8000": "http://[fd00::1]:8000", "http://h/vllm//": "http://h/vllm", "http://h:": "http://h", "HTTP://h": "http://h",
		"": "", "h:8000": "", "ftp://h": "", "http://": "", "http://u:p@h": "", "http://h?x": "", "http://h?": "", "http://h#": "", "http://h#x": "", "http://h:x": "",
	} {
		got, err := URL(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", raw, got, err)
		}
	}
}

func TestBackendsOfAPoolWithTLSAreFoundByHTTPS(t *testing.T) {
	dns := &answers{addrs: []string{"10.0.0.1"}, srv: []*net.SRV{{Target: "gpu-0.internal.", Port: 8000}}}
	secure := func(raw string) *Source {
		s, err := New(raw, Options{Resolver: dns, HTTPS: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	finds(t, secure("dns://gpu.internal:8000"), "https://10.0.0.1:8000")
	finds(t, secure("srv://_vllm._tcp.gpu.internal"), "https://gpu-0.internal:8000")
}

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
