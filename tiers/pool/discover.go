package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	lookupEvery   = 5 * time.Second
	lookupTimeout = 4 * time.Second // an answer that is later than the next question is of no use
	// keepGood is how long the last good answer stands in for empty and failed
	// ones: a name server's restart must not empty a pool whose backends run.
	keepGood = 60 * time.Second
	// maxFound bounds what one answer can make us watch.
	maxFound = 512
)

// Resolver answers which addresses a host name has; net.DefaultResolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// discovery finds backends by their addresses in DNS. It is used by one
// goroutine.
type discovery struct {
	host, port string
	resolver   Resolver
	good       time.Time // when an answer last named somebody
	failing    bool      // it was logged that answers fail
}

// newDiscovery reads "dns://host:port".
func newDiscovery(raw string, r Resolver) (*discovery, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: %w", err)
	case u.Scheme != "dns":
		return nil, fmt.Errorf("scheme is %q, not dns", u.Scheme)
	case u.Hostname() == "" || u.Port() == "":
		return nil, errors.New("must be dns://host:port")
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has more than a host and a port")
	}
	if r == nil {
		r = net.DefaultResolver
	}
	return &discovery{host: u.Hostname(), port: u.Port(), resolver: r}, nil
}

// find asks once and returns a base URL for each address, in order.
func (d *discovery) find(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	answer, err := d.resolver.LookupHost(ctx, d.host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range answer {
		// An address with a zone cannot be told in a URL that others understand.
		if addr, err := netip.ParseAddr(a); err == nil && addr.Zone() == "" {
			addrs = append(addrs, addr.Unmap())
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("lookup %s: no addresses", d.host)
	}
	var urls []string
	for _, a := range addrs[:min(len(addrs), maxFound)] {
		urls = append(urls, "http://"+net.JoinHostPort(a.String(), d.port))
	}
	return urls, nil
}

// discover asks DNS once and replaces the set by its answer. An answer that
// names nobody leaves the set as it is until the last good one is keepGood old.
func (p *Pool) discover(ctx context.Context) {
	d := p.discovery
	urls, err := d.find(ctx)
	if ctx.Err() != nil {
		return
	}
	now := p.now()
	if err == nil {
		d.good = now
		if d.failing {
			d.failing = false
			p.log.Info().Int("backends", len(urls)).Msg("discovery works again")
		}
		p.replace(urls)
		return
	}
	if !d.failing {
		d.failing = true
		p.log.Warn().Err(err).Dur("kept_for", keepGood).Msg("discovery fails, the last good backends are kept")
	}
	if now.Sub(d.good) >= keepGood {
		p.replace(nil)
	}
}

// replace makes the set consist of the given base URLs. A backend that stays
// keeps what is known of it. It is called by New and by Run's goroutine only.
func (p *Pool) replace(urls []string) {
	old := *p.set.Load()
	kept := map[string]*backend{}
	taken := map[string]bool{}
	for _, b := range old {
		if slices.Contains(urls, b.url) {
			kept[b.url], taken[b.id] = b, true
		}
	}
	set := make([]*backend, 0, len(urls))
	for _, u := range urls {
		b := kept[u]
		if b == nil {
			id := idOf(u, func(id string) bool { return taken[id] })
			taken[id] = true
			b = &backend{id: id, url: u, rates: newRates(), metrics: p.metrics.of(p.name, id)}
		}
		set = append(set, b)
	}
	added, gone := len(set)-len(kept), len(old)-len(kept)
	if added == 0 && gone == 0 {
		return
	}
	p.set.Store(&set)
	p.log.Info().Int("backends", len(set)).Int("added", added).Int("gone", gone).Msg("backends changed")
}
