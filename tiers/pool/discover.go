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

// keepGood is how long the last good answer of a name server stands in for empty and
// failed ones: its restart must not empty a pool whose backends run.
const keepGood = 60 * time.Second

// discover asks once where the backends are and replaces the set by the answer. One
// that names nobody leaves the set as it is: for a minute where a name server fails,
// and for good where a file cannot be read, because nothing but its next version
// says otherwise.
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
	added, gone := len(set)-len(kept), len(old)-len(kept)
	if added == 0 && gone == 0 {
		return
	}
	p.log.Info().Int("backends", len(set)).Int("added", added).Int("gone", gone).Msg("backends changed")
}

// join makes a backend known. The caller holds mu.
func (p *Pool) join(id, url string, now time.Time) *backend {
	b := &backend{
		id: id, url: url, hash: xxhash.Sum64String(id), metrics: p.metrics.of(p.o.Name, id),
		speed: estimate.NewSpeed(), account: capacity.NewAccount(now),
		drained: drains{fleet: p.fleetDrains[id], here: p.ownDrains[id]},
	}
	b.health.Begin(now)
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

// remove forgets a backend; its leases live on. The caller holds mu.
func (p *Pool) remove(b *backend) {
	b.gone = true
	p.warm.Forget(b.number)
	p.numbered[b.number] = nil
	if p.byID[b.id] == b {
		delete(p.byID, b.id)
	}
}

// maxID is the longest id; the ids are parts of Redis keys and of metrics.
const maxID = 64

// idOf makes an id of a URL's host and port. Where that is taken or too long,
// a hash of the URL tells them apart.
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
	_, _ = h.Write([]byte(base)) // a hash takes everything
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return id[:min(len(id), maxID-len(suffix))] + suffix
}
