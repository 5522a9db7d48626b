package pool

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
)

// keepGood is how long the last good answer of a name server is used after empty and failed ones, so that a restart of
// the name server does not empty a running pool.
const keepGood = 60 * time.Second

// discover reads the backend list once and replaces the set. An empty or failed answer leaves the set as it is for
// a minute. If the name server does not answer, backends that pass their checks stay after that, too.
func (p *Pool) discover(ctx context.Context) {
	urls, err := p.source.Find(ctx)
	if ctx.Err() != nil {
		return
	}
	now, was, is := p.o.Now(), p.DiscoveryProblem(), ""
	switch {
	case err == nil:
		p.found = now
		p.replace(urls)
	case now.Sub(p.found) < keepGood:
		is = err.Error() + "; the last good backends are kept"
	case discover.Unanswered(err):
		is = err.Error() + "; backends that pass their checks are kept"
		p.replace(p.wellURLs(now))
	default:
		is = err.Error()
		p.replace(nil)
	}
	p.locked(func() { p.notFound = is })
	switch {
	case was == is:
	case is == "":
		p.log.Info().Int("backends", len(urls)).Msg("discovery works again")
	default:
		p.log.Warn().Str("problem", is).Int("backends", len(*p.set.Load())).Msg("discovery fails")
	}
}

// DiscoveryProblem returns why the backends cannot be found now, and which are kept; "" if they can, or are fixed.
func (p *Pool) DiscoveryProblem() (problem string) {
	p.locked(func() { problem = p.notFound })
	return problem
}

// wellURLs returns the URLs of the backends that are up and answer.
func (p *Pool) wellURLs(now time.Time) (urls []string) {
	p.locked(func() {
		for _, b := range *p.set.Load() {
			if b.down == nil && b.isReachable(now) {
				urls = append(urls, b.url)
			}
		}
	})
	return urls
}

// replace sets the backends to the given base URLs. A backend that stays keeps its state. New calls it, then
// Run's goroutine if the pool has discovery, else SetBackends.
func (p *Pool) replace(urls []string) {
	old, urls := *p.set.Load(), distinct(urls)
	kept := map[string]*backend{}
	for _, b := range old {
		if slices.Contains(urls, b.url) {
			kept[b.url] = b
		}
	}
	set, now := make([]*backend, 0, len(urls)), p.o.Now()
	p.locked(func() {
		for _, u := range urls {
			b := kept[u]
			if b == nil {
				b = p.join(idOf(u), u, now)
				if len(old) > 0 {
					b.health.markStarted(now)
				}
			}
			b.cache.Index = len(set)
			set = append(set, b)
		}
		for _, b := range old {
			if kept[b.url] == nil {
				p.remove(b)
			}
		}
		p.set.Store(&set)
	})
	added, removed := len(set)-len(kept), len(old)-len(kept)
	if added == 0 && removed == 0 {
		return
	}
	p.log.Info().Int("backends", len(set)).Int("added", added).Int("gone", removed).Msg("backends changed")
}

// distinct drops URLs whose id an earlier one has.
func distinct(urls []string) (out []string) {
	taken := map[string]bool{}
	for _, u := range urls {
		if id := idOf(u); !taken[id] {
			taken[id], out = true, append(out, u)
		}
	}
	return out
}

// join adds a backend. The caller holds mu.
func (p *Pool) join(id, url string, now time.Time) *backend {
	b := &backend{
		id: id, url: url, identity: identity{kind: p.o.configuredEngine()}, cache: prefix.NewCache(id),
		speed: estimate.NewSpeed(), joined: now, account: account{using: map[prefix.Key]int{}},
	}
	b.health.base = now
	if p.o.External {
		b.markAnswered(now) // nobody asks it; requests show whether it answers
	}
	p.byID[id] = b
	return b
}

// remove removes a backend; its leases stay valid. The caller holds mu.
func (p *Pool) remove(b *backend) {
	b.removed = true
	b.cache.Forget()
	if p.byID[b.id] == b {
		delete(p.byID, b.id)
	}
}

// maxID bounds the length of an id; ids are parts of Redis keys and metric labels.
const maxID = 64

// idOf returns the id of a backend, a function of its URL alone: host and port. A hash of the URL is added if it has a path,
// or a host with other characters, or if that is too long. URLs with one id in spite of that, as of http and https at one
// port, cannot be in one pool.
func idOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		u = &url.URL{Host: base, Path: base}
	}
	plain := u.Path == ""
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			plain = plain && strings.ContainsRune("-:[]", r)
			return '-'
		}
	}, u.Host)
	if plain && len(id) <= maxID {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(base)) // a hash never fails
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return id[:min(len(id), maxID-len(suffix))] + suffix
}

// SetBackends replaces the backends of a pool without discovery. A backend that stays keeps its state; requests in flight
// at one that goes continue. An error changes nothing. Only one SetBackends may run at a time.
func (p *Pool) SetBackends(backends []string) error {
	o := p.o
	o.Backends = backends
	urls, source, err := o.validate()
	switch {
	case err != nil:
		return fmt.Errorf("pool %q: %w", p.o.Name, err)
	case source != nil:
		return fmt.Errorf("pool %q: its backends are discovered", p.o.Name)
	}
	p.replace(urls)
	select {
	case p.changed <- struct{}{}:
	default: // Run has not looked yet
	}
	return nil
}

// SetPrice replaces what the pool costs.
func (p *Pool) SetPrice(price Price) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.price = price
}
