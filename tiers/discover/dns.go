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
)

const (
	lookupEvery   = 5 * time.Second
	lookupTimeout = 4 * time.Second // a later answer is useless: the next look-up has begun
)

// addresses finds backends by the A and AAAA records of one name, all on one port, by http or https.
type addresses struct {
	host, port string
	o          Options
}

func newAddresses(rest string, o Options) (*addresses, error) {
	host, port, err := net.SplitHostPort(rest)
	if err != nil || !portOK(port) {
		return nil, errors.New("want dns://HOST:PORT with a port of 1 … 65535, such as dns://vllm-draft.svc:8000")
	}
	if !hostOK(host) {
		return nil, errors.New("the host is missing or malformed; want dns://HOST:PORT, such as dns://vllm-draft.svc:8000")
	}
	return &addresses{host: host, port: port, o: o}, nil
}

// Every is 5 s.
func (a *addresses) Every() time.Duration { return lookupEvery }

// Find looks the name up, for at most 4 s.
func (a *addresses) Find(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	answer, err := a.o.Resolver.LookupHost(ctx, a.host)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, text := range answer {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" { // a URL cannot contain an address with a zone
			continue
		}
		if u, err := URL(a.o.scheme() + "://" + net.JoinHostPort(addr.Unmap().String(), a.port)); err == nil {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("lookup %s: no addresses", a.host)
	}
	return tidy(urls), nil
}

// services finds backends by the SRV records of one name: each target is a host with the port of its record,
// by http or https.
type services struct {
	service, name string
	o             Options
}

func newServices(rest string, o Options) (*services, error) {
	service, name, ok := strings.Cut(rest, "._tcp.")
	bare, underscored := strings.CutPrefix(service, "_")
	if !ok || !underscored || strings.Contains(bare, ".") || !hostOK(bare) || !hostOK(name) {
		return nil, errors.New("want srv://_SERVICE._tcp.NAME without a port, such as srv://_vllm._tcp.gpu.internal")
	}
	return &services{service: bare, name: name, o: o}, nil
}

// Every is 5 s.
func (s *services) Every() time.Duration { return lookupEvery }

// Find looks the records up, for at most 4 s, and returns those that serve. Records with a malformed target
// are skipped.
func (s *services) Find(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	_, records, err := s.o.Resolver.LookupSRV(ctx, s.service, "tcp", s.name)
	if err != nil && len(records) == 0 {
		return nil, err
	}
	var urls []string
	for _, r := range serving(records) {
		u, err := URL(s.o.scheme() + "://" + net.JoinHostPort(target(r), strconv.Itoa(int(r.Port))))
		if err == nil {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("lookup _%s._tcp.%s: no services", s.service, s.name)
	}
	return tidy(urls), nil
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
		return r == nil || r.Port == 0 || !hostOK(target(r))
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
