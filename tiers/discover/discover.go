// Package discover finds a pool's backends: the addresses of a name, or the service records of a name. Start at [New].
// It guarantees that a result is sorted, has no duplicates, and has 1 to [MaxBackends] base URLs in their canonical form:
// the caller may use it as the pool's complete set. If there is no result, the caller decides what to do; a Source does
// not keep old results.
package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/words"
)

const (
	// Every is the time between two calls of [Source.Find].
	Every         = 5 * time.Second
	lookupTimeout = 4 * time.Second // a later answer is useless: the next look-up has begun
)

// Resolver answers DNS questions; net.DefaultResolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options are how backends are found and reached. The zero value works.
type Options struct {
	Resolver Resolver // nil is net.DefaultResolver
	HTTPS    bool     // all backends are reached by https
}

// Source finds the backends that a pool has now. Only one goroutine may use it.
type Source struct {
	name, scheme string
	lookUp       func(ctx context.Context) (addresses []string, err error) // host:port each, also malformed ones
}

// New makes a Source of one of
//
//	dns://HOST:PORT            every A and AAAA record of HOST, all on one port
//	srv://_SERVICE._tcp.NAME   the SRV records of that name, target and port each
//
// Nothing is looked up before Find, so an error is about raw itself and says what it must be; it never repeats raw.
func New(raw string, o Options) (*Source, error) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	s := &Source{scheme: "http"}
	if o.HTTPS {
		s.scheme = "https"
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case ok && scheme == "dns":
		return s, s.findAddresses(rest, o.Resolver)
	case ok && scheme == "srv":
		return s, s.findServices(rest, o.Resolver)
	}
	return nil, errors.New("want dns://HOST:PORT or srv://_SERVICE._tcp.NAME, such as dns://vllm-draft.svc:8000")
}

// Check reports whether New would accept raw.
func Check(raw string) error {
	_, err := New(raw, Options{})
	return err
}

func (s *Source) findAddresses(rest string, r Resolver) error {
	host, port, err := net.SplitHostPort(rest)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 {
		return errors.New("want dns://HOST:PORT with a port of 1 … 65535, such as dns://vllm-draft.svc:8000")
	}
	if !words.IsHost(host) {
		return errors.New("the host is missing or malformed; want dns://HOST:PORT, such as dns://vllm-draft.svc:8000")
	}
	s.name = host + ": no addresses"
	s.lookUp = func(ctx context.Context) ([]string, error) {
		found, err := r.LookupHost(ctx, host)
		var all []string
		for _, text := range found {
			if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" { // a URL cannot contain an address with a zone
				all = append(all, net.JoinHostPort(addr.Unmap().String(), port))
			}
		}
		return all, err
	}
	return nil
}

func (s *Source) findServices(rest string, r Resolver) error {
	service, name, ok := strings.Cut(rest, "._tcp.")
	bare, underscored := strings.CutPrefix(service, "_")
	if !ok || !underscored || strings.Contains(bare, ".") || !words.IsHost(bare) || !words.IsHost(name) {
		return errors.New("want srv://_SERVICE._tcp.NAME without a port, such as srv://_vllm._tcp.gpu.internal")
	}
	s.name = service + "._tcp." + name + ": no services"
	s.lookUp = func(ctx context.Context) ([]string, error) {
		_, records, err := r.LookupSRV(ctx, bare, "tcp", name)
		if len(records) > 0 {
			err = nil // of others, which are malformed
		}
		var all []string
		for _, r := range serving(records) {
			all = append(all, net.JoinHostPort(target(r), strconv.Itoa(int(r.Port))))
		}
		return all, err
	}
	return nil
}

// Find looks once: base URLs in the canonical form of [URL], 1 … [MaxBackends], sorted as text, without duplicates; the
// caller may keep and change them. No backend is an error. It returns within 4 s.
func (s *Source) Find(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := s.lookUp(ctx)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, address := range found {
		if u, err := URL(s.scheme + "://" + address); err == nil {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("lookup %s", s.name)
	}
	slices.Sort(urls)
	urls = slices.Compact(urls)
	return urls[:min(len(urls), MaxBackends)], nil
}

// Unanswered reports whether an error of Find means that the name server has not said what there is: a time-out, SERVFAIL,
// REFUSED, or no connection.
func Unanswered(err error) bool {
	failed, ok := errors.AsType[*net.DNSError](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && !failed.IsNotFound
}

// serving returns the records that are backends now (RFC 2782): of those with a target and a port, the group
// with the lowest priority number, because the others are on standby until DNS removes that group. Weights do
// not spread requests, because the expected wait does that. But a record with weight 0 among weighted ones
// should get almost no requests, and is left out.
func serving(records []*net.SRV) []*net.SRV {
	usable := slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool {
		return r == nil || r.Port == 0 || !words.IsHost(target(r))
	})
	if len(usable) == 0 {
		return nil
	}
	first := slices.MinFunc(usable, func(a, b *net.SRV) int { return int(a.Priority) - int(b.Priority) }).Priority
	usable = slices.DeleteFunc(usable, func(r *net.SRV) bool { return r.Priority != first })
	if slices.ContainsFunc(usable, func(r *net.SRV) bool { return r.Weight > 0 }) {
		usable = slices.DeleteFunc(usable, func(r *net.SRV) bool { return r.Weight == 0 })
	}
	return usable
}

// target is a record's host without the dot of a full name; "" if the record says that there is no such
// service.
func target(r *net.SRV) string { return strings.TrimSuffix(r.Target, ".") }
