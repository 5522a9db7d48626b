package pool

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// answers is a resolver that says what it holds.
type answers struct {
	addrs []string
	err   error
	hang  bool
}

func (a *answers) LookupHost(ctx context.Context, _ string) ([]string, error) {
	if a.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.addrs, a.err
}

func (a *answers) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, a.err
}

func ids(p *Pool) string {
	var out []string
	for _, s := range p.Snapshot() {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func TestDiscoveryFollowsDNSAndKeepsTheLastGoodAnswerForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &answers{}
		p := fixed(t, Options{Discover: "dns://gpu.internal:8000", Resolver: dns})
		step := func(want string) {
			t.Helper()
			p.discover(t.Context())
			if got := ids(p); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		step("") // no answer yet
		if _, err := p.pick(Demand{}); !errors.Is(err, ErrNoBackend) || p.Readiness() != Down {
			t.Fatalf("picked of nothing: %v", err)
		}
		dns.addrs = []string{"10.0.0.2", "10.0.0.1", "10.0.0.2", "fd00::1", "fe80::1%eth0", "nonsense"}
		step("10.0.0.1-8000 10.0.0.2-8000 -fd00--1--8000")
		l := pick(t, p, Demand{PromptTokens: 7, Exclude: []string{"10.0.0.1-8000", "-fd00--1--8000"}})

		dns.addrs = []string{"10.0.0.2", "10.0.0.3"}
		step("10.0.0.2-8000 10.0.0.3-8000")
		if s := p.Snapshot()[0]; s.InFlight != 1 {
			t.Errorf("what stayed was forgotten: %+v", s)
		}
		dns.addrs = nil // the answer empties
		time.Sleep(keepGood / 2)
		step("10.0.0.2-8000 10.0.0.3-8000")
		dns.err = &net.DNSError{Err: "no such host", IsNotFound: true}
		time.Sleep(keepGood/2 - 1)
		step("10.0.0.2-8000 10.0.0.3-8000")
		time.Sleep(time.Nanosecond)
		step("")
		l.Done(3) // of a backend that is gone: harmless

		dns.addrs, dns.err = []string{"10.0.0.9"}, nil
		step("10.0.0.9-8000")
		dns.hang = true
		before := time.Now()
		step("10.0.0.9-8000")
		if took := time.Since(before); took != 4*time.Second {
			t.Errorf("a hanging name server held for %s", took)
		}
	})
}

func TestANameServerThatDoesNotAnswerEmptiesNoPoolOfBackendsThatDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fails := range map[string]answers{
			"SERVFAIL":     {err: &net.DNSError{Err: "server misbehaving", Name: "gpu.internal", IsTemporary: true}},
			"a time-out":   {err: &net.DNSError{Err: "i/o timeout", Name: "gpu.internal", IsTimeout: true}},
			"no answer":    {hang: true},
			"no such host": {err: &net.DNSError{Err: "no such host", Name: "gpu.internal", IsNotFound: true}},
		} {
			dns := &answers{addrs: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}}
			p := fixed(t, Options{Discover: "dns://gpu.internal:8000", Resolver: dns})
			p.discover(t.Context())
			for range 2 * int(keepGood/time.Second) {
				time.Sleep(time.Second)
				p.Observe("10.0.0.1-8000", pressure.Reading{Engines: 1}, nil)
				p.Observe("10.0.0.2-8000", pressure.Reading{}, syscall.ECONNREFUSED)
				p.noteMissed(p.named("10.0.0.3-8000"), &url.Error{Op: "Get", URL: "http://10.0.0.3:8000", Err: context.DeadlineExceeded})
			}
			*dns = fails
			p.discover(t.Context())
			want, says := "10.0.0.1-8000", "backends that pass their checks are kept"
			if name == "no such host" {
				want, says = "", "no such host"
			}
			if got, problem := ids(p), p.DiscoveryProblem(); got != want || !strings.Contains(problem, says) {
				t.Errorf("%s: %q are left, want %q; %s", name, got, want, problem)
			}
			*dns = answers{addrs: []string{"10.0.0.2"}}
			p.discover(t.Context())
			if got, problem := ids(p), p.DiscoveryProblem(); got != "10.0.0.2-8000" || problem != "" {
				t.Errorf("%s: %q afterwards; %s", name, got, problem)
			}
		}
	})
}
