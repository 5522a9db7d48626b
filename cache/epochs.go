package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// purgesEvery is how often the epochs are read; a purge is heard of within twice that.
	purgesEvery = 250 * time.Millisecond
	// deafAfter is how old the last good reading may be: what every replica keeps to, so that
	// a purge is in force everywhere by then.
	deafAfter = time.Second
)

// purges is what is known of them.
type purges struct {
	known   atomic.Pointer[known] // nil before the first good reading
	doubted bool                  // the last reading was none; of one goroutine
	told    bool                  // that it was refused; of the same
}

// known is a good reading, with what earlier ones had beyond it. It is not changed.
type known struct {
	asked   time.Time // when Redis was asked for it
	all     uint64
	tenants map[string]uint64
	routes  map[string]uint64
}

// Epochs are the epochs of a tenant's requests to a route. ok is false while purges cannot be
// heard of, for longer than a second: then nothing may be served from the cache nor kept in it. Without any Redis
// there are no purges.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) {
	if s.control == nil {
		return Epochs{}, true
	}
	k := s.purges.known.Load()
	if k == nil || s.now().Sub(k.asked) > deafAfter {
		return Epochs{}, false
	}
	return Epochs{All: k.all, Tenant: k.tenants[tenant], Route: k.routes[route]}, true
}

// hearPurges reads the epochs until ctx ends.
func (s *Store) hearPurges(ctx context.Context) {
	s.readEpochs(ctx)
	every(ctx, purgesEvery, func() { s.readEpochs(ctx) })
}

// errEpochs is a hash that no purge made: it is refused as a whole, because what it should say is not known.
var errEpochs = errors.New("the hash of purges makes no sense")

// readEpochs reads them once. What fails leaves the last good ones, until they are too old.
func (s *Store) readEpochs(ctx context.Context) {
	p := &s.purges
	asked := s.now()
	var hash map[string]string
	err := inBackground(ctx, func(ctx context.Context) (err error) {
		if p.doubted { // it may be too large to be asked for
			n, err := s.control.HLen(ctx, keyEpochs).Result()
			if err != nil {
				return err
			}
			if n > mostEpochs {
				return fmt.Errorf("%w: %d fields", errEpochs, n)
			}
		}
		hash, err = s.control.HGetAll(ctx, keyEpochs).Result()
		return err
	})
	var next *known
	if err == nil {
		next, err = p.known.Load().heard(hash, asked)
	}
	p.doubted = err != nil
	if err == nil {
		p.known.Store(next)
		if p.told {
			p.told = false
			s.log.Info().Msg("purges of the cache are heard again")
		}
		return
	}
	if wrongHash(err) {
		s.metrics.refused.add(refusedEpochs)
		if !p.told {
			p.told = true
			s.log.Warn().Err(err).Str("key", keyEpochs).Msg("purges of the cache cannot be heard, so it is not used: purge everything to mend it")
		}
	}
}

// wrongHash says whether it is the key that is wrong, not Redis.
func wrongHash(err error) bool {
	return errors.Is(err, errEpochs) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// heard is what is known after another reading. An epoch never goes back: what is missing or lower than it was stays
// as it was, unless everything was purged since, which covers it and leaves a hash of its own. The error is errEpochs.
func (k *known) heard(hash map[string]string, asked time.Time) (*known, error) {
	if len(hash) > mostEpochs {
		return nil, fmt.Errorf("%w: %d fields", errEpochs, len(hash))
	}
	next := &known{asked: asked, tenants: map[string]uint64{}, routes: map[string]uint64{}}
	for field, value := range hash {
		epoch, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %.64q is %.24q", errEpochs, field, value)
		}
		tenant, isTenant := strings.CutPrefix(field, fieldTenant)
		route, isRoute := strings.CutPrefix(field, fieldRoute)
		switch {
		case field == fieldAll:
			next.all = epoch
		case isTenant && len(tenant) <= mostTenantName:
			next.tenants[tenant] = epoch
		case isRoute && len(route) <= mostRouteName:
			next.routes[route] = epoch
		default: // of another release, which purges what we do not know
			return nil, fmt.Errorf("%w: %.64q", errEpochs, field)
		}
	}
	if k == nil || next.all > k.all {
		return next, nil
	}
	next.all = k.all
	carry(next.tenants, k.tenants)
	carry(next.routes, k.routes)
	if len(next.tenants)+len(next.routes) > 2*mostEpochs { // hands took fields out and put others in
		next.fold()
	}
	return next, nil
}

// carry keeps what was known and is now missing or lower.
func carry(now, was map[string]uint64) {
	for name, epoch := range was {
		now[name] = max(now[name], epoch)
	}
}

// fold has everything purged, which covers all that is known.
func (k *known) fold() {
	for _, epochs := range []map[string]uint64{k.tenants, k.routes} {
		for _, epoch := range epochs {
			k.all = max(k.all, epoch)
		}
		clear(epochs)
	}
	if k.all < math.MaxUint64 {
		k.all++ // never what it was
	}
}
