package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

const (
	// EpochsInterval is the time between reads of the epochs; a purge is noticed within twice that.
	EpochsInterval = 250 * time.Millisecond
	// MaxEpochAge is the maximum age of the last good reading on every replica, so a purge is in force
	// everywhere after it.
	MaxEpochAge = time.Second
	// maxAhead is how far an epoch may be ahead of the clock. A later one was not written by a purge.
	maxAhead = time.Minute
)

var (
	//go:embed epochs.lua
	epochsSource string
	epochsScript = script.New(epochsSource)
)

// purgeState is what this replica knows of purges.
type purgeState struct {
	reading       atomic.Pointer[epochReading] // nil before the first good reading
	refusalLogged bool                         // a refusal was logged; used by one goroutine
}

// epochReading is a good reading. It is immutable.
type epochReading struct {
	requestedAt time.Time // start of the reading
	all         uint64    // 0 if the hash does not say it: it is new, or was lost
	tenants     map[string]uint64
	routes      map[string]uint64
}

// Epochs returns the epochs of a tenant's requests to a route. ok is false if purges could not be read for
// longer than a second: then nothing may be served from the cache or stored in it. If Redis has lost
// purges, everything counts as purged. Without any Redis there are no purges.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) {
	if s.control == nil {
		return Epochs{}, true
	}
	k := s.purges.reading.Load()
	if k == nil || s.now().Sub(k.requestedAt) > MaxEpochAge {
		return Epochs{}, false
	}
	return Epochs{All: k.all, Tenant: k.tenants[tenant], Route: k.routes[route]}, true
}

// watchPurges reads the epochs until ctx ends.
func (s *Store) watchPurges(ctx context.Context) {
	ticker := time.NewTicker(EpochsInterval)
	defer ticker.Stop()
	for {
		s.readEpochs(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

var (
	// errEpochs is a hash that no purge wrote: it is refused as a whole, because its meaning is unknown.
	errEpochs = errors.New("the hash of purges makes no sense")
	// errUnset is a hash that has lost purges, in a Redis that refuses to purge everything instead.
	errUnset = errors.New("the hash of purges does not say when everything was purged, and cannot be made to")
)

// readEpochs reads them once. If that fails, the last good ones remain until they are too old.
func (s *Store) readEpochs(ctx context.Context) {
	p := &s.purges
	next, err := s.askEpochs(ctx)
	if err == nil {
		p.reading.Store(next)
		if p.refusalLogged {
			p.refusalLogged = false
			s.log.Info().Msg("purges of the cache are heard again")
		}
		return
	}
	if wrongHash(err) {
		s.metrics.refused.WithLabelValues(refusedEpochs).Inc()
		if !p.refusalLogged {
			p.refusalLogged = true
			s.log.Warn().Err(err).Str("key", keyEpochs).Msg("purges of the cache cannot be heard, so it is not used: purge everything to mend it")
		}
	}
}

// askEpochs makes one reading. If Redis has lost purges, or has some of the future, everything is purged.
func (s *Store) askEpochs(ctx context.Context) (next *epochReading, err error) {
	was, requestedAt := s.purges.reading.Load(), s.now()
	err = inBackground(ctx, func(ctx context.Context) error {
		hash, err := s.control.HGetAll(ctx, keyEpochs).Result()
		if err != nil {
			return err
		}
		next, err = parseEpochs(hash, requestedAt)
		return err
	})
	if err != nil {
		return nil, err
	}
	known, lost := was.highest(), was.lostIn(next)
	// One that is known already is not ahead of Redis' clock, only of this replica's.
	ahead := next.highest() > max(known, uint64(requestedAt.Add(maxAhead).UnixMicro()))
	switch {
	case ahead && !lost:
		s.log.Warn().Str("key", keyEpochs).Msg("purges of the cache are ahead of the clock: everything is purged if Redis' clock says so, too")
		known = 0
	case !lost:
		return next, nil
	case was != nil:
		s.log.Warn().Str("key", keyEpochs).Msg("purges of the cache were lost: everything is purged")
	}
	err = inBackground(ctx, func(ctx context.Context) error {
		reply, err := onEpochs(ctx, s.control, epochsScript, known, maxAhead.Microseconds())
		if refused, ok := errors.AsType[redis.Error](err); ok {
			return fmt.Errorf("%w: %w", errUnset, refused)
		}
		if err != nil {
			return err
		}
		hash := make(map[string]string, len(reply)/2)
		for i := 0; i+1 < len(reply); i += 2 {
			hash[reply[i]] = reply[i+1]
		}
		next, err = parseEpochs(hash, requestedAt)
		return err
	})
	return next, err
}

// wrongHash reports whether the error is about the key, not about an unavailable Redis.
func wrongHash(err error) bool {
	return errors.Is(err, errEpochs) || errors.Is(err, errUnset) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// parseEpochs reads the hash. The error is errEpochs.
func parseEpochs(hash map[string]string, requestedAt time.Time) (*epochReading, error) {
	if len(hash) > maxEpochs {
		return nil, fmt.Errorf("%w: %d fields", errEpochs, len(hash))
	}
	k := &epochReading{requestedAt: requestedAt, tenants: map[string]uint64{}, routes: map[string]uint64{}}
	for field, value := range hash {
		epoch, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %.64q is %.24q", errEpochs, field, value)
		}
		tenant, isTenant := strings.CutPrefix(field, fieldTenant)
		route, isRoute := strings.CutPrefix(field, fieldRoute)
		switch {
		case field == fieldAll:
			k.all = epoch
		case isTenant && len(tenant) <= maxTenantName:
			k.tenants[tenant] = epoch
		case isRoute && len(route) <= maxRouteName:
			k.routes[route] = epoch
		default: // a purge of another version, unknown here
			return nil, fmt.Errorf("%w: %.64q", errEpochs, field)
		}
	}
	return k, nil
}

// lostIn reports whether a later reading lacks something that a purge of everything does not explain. k may be nil.
func (k *epochReading) lostIn(next *epochReading) bool {
	switch {
	case next.all == 0:
		return true
	case k == nil || next.all > k.all:
		return false
	}
	return next.all < k.all || isBehind(next.tenants, k.tenants) || isBehind(next.routes, k.routes)
}

// isBehind reports whether a known epoch is now missing or lower.
func isBehind(now, was map[string]uint64) bool {
	for name, epoch := range was {
		if now[name] < epoch {
			return true
		}
	}
	return false
}

// highest is the highest known epoch, 0 if nothing is known.
func (k *epochReading) highest() uint64 {
	if k == nil {
		return 0
	}
	highest := k.all
	for _, epochs := range []map[string]uint64{k.tenants, k.routes} {
		for _, epoch := range epochs {
			highest = max(highest, epoch)
		}
	}
	return highest
}
