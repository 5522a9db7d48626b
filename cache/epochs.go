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
	// maxEpoch is the maximum: Lua counts exactly up to it. The present time in µs is a fifth of it.
	maxEpoch = 1 << 53
	// maxRestored is how many lost fields are restored at once; the rest follows after the next reading.
	maxRestored = 256
)

var (
	//go:embed epochs.lua
	epochsSource string
	epochsScript = script.New(epochsSource)
)

// purgeState is what this replica knows of purges.
type purgeState struct {
	reading       atomic.Pointer[epochReading] // nil before the first good reading
	doubted       bool                         // the last reading failed; used by one goroutine
	refusalLogged bool                         // a refusal was logged; used by the same
	lost          bool                         // the last reading lacked known fields; used by the same
	denied        bool                         // lost fields may not be restored; used by the same
}

// epochReading is a good reading, merged with earlier ones. It is immutable.
type epochReading struct {
	requestedAt time.Time // start of the reading
	all         uint64
	tenants     map[string]uint64
	routes      map[string]uint64
}

// Epochs returns the epochs of a tenant's requests to a route. ok is false if purges could not be read for
// longer than a second: then nothing may be served from the cache or stored in it. If Redis has lost its
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
	s.readEpochs(ctx)
	every(ctx, EpochsInterval, func() { s.readEpochs(ctx) })
}

var (
	// errEpochs is a hash that no purge wrote: it is refused as a whole, because its meaning is unknown.
	errEpochs = errors.New("the hash of purges makes no sense")
	// errUnset is a hash that has lost purges, in a Redis that refuses to restore them.
	errUnset = errors.New("the hash of purges does not say when everything was purged, and cannot be made to")
)

// readEpochs reads them once. If that fails, the last good ones remain until they are too old.
func (s *Store) readEpochs(ctx context.Context) {
	p := &s.purges
	next, err := s.askEpochs(ctx)
	p.doubted = err != nil
	if err == nil {
		p.reading.Store(next)
		if p.refusalLogged {
			p.refusalLogged = false
			s.log.Info().Msg("purges of the cache are heard again")
		}
		return
	}
	if wrongHash(err) {
		s.metrics.refused.add(refusedEpochs)
		if !p.refusalLogged {
			p.refusalLogged = true
			s.log.Warn().Err(err).Str("key", keyEpochs).Msg("purges of the cache cannot be heard, so it is not used: purge everything to mend it")
		}
	}
}

// askEpochs makes one reading. Lost fields are restored first. If that fails, the reading is useless without
// the field of all, because that may have been a purge. If a script may not write it, the field counts as
// absent.
func (s *Store) askEpochs(ctx context.Context) (*epochReading, error) {
	p, requestedAt := &s.purges, s.now()
	was := p.reading.Load()
	hash, err := s.readHash(ctx)
	if err != nil {
		return nil, err
	}
	next, err := was.merge(hash, requestedAt)
	if err != nil {
		return nil, err
	}
	lost := next.missing(hash)
	if lost == nil {
		p.lost = false
		return next, nil
	}
	if was != nil && !p.lost {
		s.log.Warn().Str("key", keyEpochs).Msg("purges of the cache were lost: they are made again")
	}
	p.lost = true
	restored, err := s.restore(ctx, lost)
	if err == nil {
		return was.merge(restored, requestedAt)
	}
	if _, said := hash[fieldAll]; said || p.denied {
		return next, nil
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = fmt.Errorf("%w: %w", errUnset, reply)
	}
	return nil, err
}

// readHash reads the hash of purges.
func (s *Store) readHash(ctx context.Context) (hash map[string]string, err error) {
	err = inBackground(ctx, func(ctx context.Context) (err error) {
		if s.purges.doubted { // it may be too large to read
			n, err := s.control.HLen(ctx, keyEpochs).Result()
			if err != nil {
				return err
			}
			if n > maxEpochs {
				return fmt.Errorf("%w: %d fields", errEpochs, n)
			}
		}
		hash, err = s.control.HGetAll(ctx, keyEpochs).Result()
		return err
	})
	return hash, err
}

// restore repeats the lost purges, and returns the hash afterwards.
func (s *Store) restore(ctx context.Context, lost []any) (map[string]string, error) {
	var reply []string
	err := inBackground(ctx, func(ctx context.Context) (err error) {
		reply, err = onEpochs(ctx, s.control, epochsScript, lost...)
		return err
	})
	p := &s.purges
	if denied := err != nil && isDenied(err); denied != p.denied && (denied || err == nil) {
		if p.denied = denied; denied {
			s.log.Warn().Err(err).Str("key", keyEpochs).Msg("purges of the cache that Redis loses are forgotten: the script that restores them is not allowed")
		}
	}
	if err != nil {
		return nil, err
	}
	hash := make(map[string]string, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		hash[reply[i]] = reply[i+1]
	}
	if hash[fieldAll] == "" {
		return nil, fmt.Errorf("%w: Redis' reply is none of the script's", errEpochs)
	}
	return hash, nil
}

// isDenied reports whether Redis refused a script, or a command in it, to its user. Before Redis 7.2 only the
// text of the error shows the latter.
func isDenied(err error) bool {
	return redis.IsPermissionError(err) || strings.Contains(err.Error(), "The user executing the script can't")
}

// missing returns the arguments of the script that restores known fields that a hash lacks; nil if there are
// none.
func (k *epochReading) missing(hash map[string]string) []any {
	args := []any{maxEpochs, k.all}
	if saysLess(hash, fieldAll, k.all) {
		return args // everything is purged, including the rest
	}
	for prefix, epochs := range map[string]map[string]uint64{fieldTenant: k.tenants, fieldRoute: k.routes} {
		for name, epoch := range epochs {
			if len(args) < 2+2*maxRestored && saysLess(hash, prefix+name, epoch) {
				args = append(args, prefix+name, epoch)
			}
		}
	}
	if len(args) == 2 {
		return nil
	}
	return args
}

// saysLess reports whether a field is missing, or lower than an epoch.
func saysLess(hash map[string]string, field string, epoch uint64) bool {
	said, err := strconv.ParseUint(hash[field], 10, 64)
	return err != nil || said < epoch
}

// wrongHash reports whether the error is about the key, not about an unavailable Redis.
func wrongHash(err error) bool {
	return errors.Is(err, errEpochs) || errors.Is(err, errUnset) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// merge combines known epochs with another reading. An epoch never decreases: a missing or lower field keeps
// its known value, unless everything was purged since, which starts a new hash. The error is errEpochs.
func (k *epochReading) merge(hash map[string]string, requestedAt time.Time) (*epochReading, error) {
	if len(hash) > maxEpochs {
		return nil, fmt.Errorf("%w: %d fields", errEpochs, len(hash))
	}
	next := &epochReading{requestedAt: requestedAt, tenants: map[string]uint64{}, routes: map[string]uint64{}}
	for field, value := range hash {
		epoch, err := strconv.ParseUint(value, 10, 64)
		if err != nil || epoch > maxEpoch {
			return nil, fmt.Errorf("%w: %.64q is %.24q", errEpochs, field, value)
		}
		tenant, isTenant := strings.CutPrefix(field, fieldTenant)
		route, isRoute := strings.CutPrefix(field, fieldRoute)
		switch {
		case field == fieldAll:
			next.all = epoch
		case isTenant && len(tenant) <= maxTenantName:
			next.tenants[tenant] = epoch
		case isRoute && len(route) <= maxRouteName:
			next.routes[route] = epoch
		default: // a purge of another version, unknown here
			return nil, fmt.Errorf("%w: %.64q", errEpochs, field)
		}
	}
	if k == nil || next.all > k.all {
		return next, nil
	}
	next.all = k.all
	carry(next.tenants, k.tenants)
	carry(next.routes, k.routes)
	if len(next.tenants)+len(next.routes) > 2*maxEpochs { // someone removed fields by hand and added others
		next.purgeAll()
	}
	return next, nil
}

// carry keeps known epochs that are now missing or lower.
func carry(now, was map[string]uint64) {
	for name, epoch := range was {
		now[name] = max(now[name], epoch)
	}
}

// purgeAll purges everything.
func (k *epochReading) purgeAll() {
	for _, epochs := range []map[string]uint64{k.tenants, k.routes} {
		for _, epoch := range epochs {
			k.all = max(k.all, epoch)
		}
		clear(epochs)
	}
	k.all = min(k.all+1, maxEpoch) // different from every earlier value
}
