package pool

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/foregate/foregate/tiers/pool/capacity"
	"github.com/foregate/foregate/tiers/pool/estimate"
)

// keepGood is how long the last good answer of a name server is used after empty and failed ones, so that a restart of
// the name server does not empty a running pool.
const keepGood = 60 * time.Second

// discover reads the backend list once and replaces the set. An empty or failed answer leaves the set as it is: for a
// minute if a name server fails, and until the next good version if a file cannot be read.
func (p *Pool) discover(ctx context.Context) {
	urls, err := p.source.Find(ctx)
	if ctx.Err() != nil {
		return
	}
	f := &p.found
	now := p.o.Now()
	if err == nil {
		f.good = now
		if f.failing != "" {
			f.failing = ""
			p.log.Info().Int("backends", len(urls)).Msg("discovery works again")
		}
		p.replace(urls)
		return
	}
	if text := err.Error(); f.failing != text {
		f.failing = text
		p.log.Warn().Err(err).Msg("discovery fails, the last good backends are kept")
	}
	if !f.forGood && now.Sub(f.good) >= keepGood {
		p.replace(nil)
	}
}

// replace sets the backends to the given base URLs. A backend that stays keeps its state. New calls it, then
// Run's goroutine if the pool has discovery, else SetBackends.
func (p *Pool) replace(urls []string) {
	old := *p.set.Load()
	kept := map[string]*backend{}
	taken := map[string]bool{}
	for _, b := range old {
		if slices.Contains(urls, b.url) {
			kept[b.url], taken[b.id] = b, true
		}
	}
	set, now := make([]*backend, 0, len(urls)), p.o.Now()
	p.locked(func() {
		for _, u := range urls {
			b := kept[u]
			if b == nil {
				id := idOf(u, func(id string) bool { return taken[id] })
				taken[id] = true
				b = p.join(id, u, now)
				if len(old) > 0 {
					b.health.MarkStarted(now)
				}
			}
			b.at = len(set)
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

// join adds a backend. The caller holds mu.
func (p *Pool) join(id, url string, now time.Time) *backend {
	b := &backend{
		id: id, url: url, identity: identity{kind: p.o.configuredEngine()}, hash: xxhash.Sum64String(id), metrics: p.metrics.of(p.o.Name, id),
		speed: estimate.NewSpeed(), account: capacity.NewAccount(now),
		drained: drains{fleet: p.fleetDrains[id], here: p.ownDrains[id]},
	}
	b.health.Begin(now)
	if p.o.External {
		b.reachability.MarkAnswered(now) // nobody asks it; requests show whether it answers
	}
	b.number = slices.Index(p.numbered, nil)
	if b.number < 0 {
		b.number = p.warm.Join(b.hash)
		p.numbered = append(p.numbered, nil)
	} else {
		p.warm.Rejoin(b.number, b.hash)
	}
	p.numbered[b.number] = b
	p.byID[id] = b
	return b
}

// remove removes a backend; its leases stay valid. The caller holds mu.
func (p *Pool) remove(b *backend) {
	b.removed = true
	p.warm.Forget(b.number)
	p.numbered[b.number] = nil
	if p.byID[b.id] == b {
		delete(p.byID, b.id)
	}
}

// maxID bounds the length of an id; ids are parts of Redis keys and metric labels.
const maxID = 64

// idOf returns an id from a URL's host and port. If that is taken or too long, a hash of the URL is added.
func idOf(base string, taken func(string) bool) string {
	host := base
	if u, err := url.Parse(base); err == nil {
		host = u.Host
	}
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			return '-'
		}
	}, host)
	if len(id) <= maxID && !taken(id) {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(base)) // a hash never fails
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return id[:min(len(id), maxID-len(suffix))] + suffix
}
