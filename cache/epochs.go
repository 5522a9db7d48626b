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
	// epochsInterval is how often the epochs are read; a purge is heard of within twice that.
	epochsInterval = 250 * time.Millisecond
	// maxEpochAge is how old the last good reading may be: what every replica keeps to, so that
	// a purge is in force everywhere by then.
	maxEpochAge = time.Second
	// maxEpoch is the highest that there is: Lua counts exactly up to it. Now is a fifth of it, in µs.
	maxEpoch = 1 << 53
	// maxRestored is how many lost fields are told at once; the others are with the next reading.
	maxRestored = 256
)

var (
	//go:embed epochs.lua
	epochsSource string
	epochsScript = script.New(epochsSource)
)

// purgeState is what is known of them.
type purgeState struct {
	known   atomic.Pointer[knownEpochs] // nil before the first good reading
	doubted bool                        // the last reading was none; of one goroutine
	told    bool                        // that it was refused; of the same
	lost    bool                        // the last one lacked what was known; of the same
	denied  bool                        // what is lost may not be restored; of the same
}

// knownEpochs is a good reading, with what earlier ones had beyond it. It is not changed.
type knownEpochs struct {
	asked   time.Time // when Redis was asked for it
	all     uint64
	tenants map[string]uint64
	routes  map[string]uint64
}

// Epochs are the epochs of a tenant's requests to a route. ok is false while purges cannot be
// heard of, for longer than a second: then nothing may be served from the cache nor kept in it. A Redis that has lost
// its purges has everything purged. Without any Redis there are no purges.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) {
	if s.control == nil {
		return Epochs{}, true
	}
	k := s.purges.known.Load()
	if k == nil || s.now().Sub(k.asked) > maxEpochAge {
		return Epochs{}, false
	}
	return Epochs{All: k.all, Tenant: k.tenants[tenant], Route: k.routes[route]}, true
}

// watchPurges reads the epochs until ctx ends.
func (s *Store) watchPurges(ctx context.Context) {
	s.readEpochs(ctx)
	every(ctx, epochsInterval, func() { s.readEpochs(ctx) })
}

var (
	// errEpochs is a hash that no purge made: it is refused as a whole, because what it should say is not known.
	errEpochs = errors.New("the hash of purges makes no sense")
	// errUnset is a hash that has lost purges, in a Redis that takes none.
	errUnset = errors.New("the hash of purges does not say when everything was purged, and cannot be made to")
)

// readEpochs reads them once. What fails leaves the last good ones, until they are too old.
func (s *Store) readEpochs(ctx context.Context) {
	p := &s.purges
	next, err := s.askEpochs(ctx)
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

// askEpochs is a reading. What the hash has lost is restored first; where that fails nothing is known without the
// field of all, which may have been a purge, unless a script may not write it: then it counts as none.
func (s *Store) askEpochs(ctx context.Context) (*knownEpochs, error) {
	p, asked := &s.purges, s.now()
	was := p.known.Load()
	hash, err := s.readHash(ctx)
	if err != nil {
		return nil, err
	}
	next, err := was.merge(hash, asked)
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
		return was.merge(restored, asked)
	}
	if _, said := hash[fieldAll]; said || p.denied {
		return next, nil
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = fmt.Errorf("%w: %w", errUnset, reply)
	}
	return nil, err
}

// readHash asks for the hash of purges.
func (s *Store) readHash(ctx context.Context) (hash map[string]string, err error) {
	err = inBackground(ctx, func(ctx context.Context) (err error) {
		if s.purges.doubted { // it may be too large to be asked for
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

// restore has what was lost purged again, and returns the hash that there is then.
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

// isDenied reports whether Redis refused a script, or a command in it, to its user. Before Redis 7.2 the latter is told in words alone.
func isDenied(err error) bool {
	return redis.IsPermissionError(err) || strings.Contains(err.Error(), "The user executing the script can't")
}

// missing are the arguments of the script that restores what is known beyond a hash; nil where there is nothing.
func (k *knownEpochs) missing(hash map[string]string) []any {
	args := []any{maxEpochs, k.all}
	if saysLess(hash, fieldAll, k.all) {
		return args // everything is purged, which covers the rest
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

// wrongHash says whether it is the key that is wrong, not that Redis is away.
func wrongHash(err error) bool {
	return errors.Is(err, errEpochs) || errors.Is(err, errUnset) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// merge is what is known after another reading. An epoch never goes back: what is missing or lower than it was stays
// as it was, unless everything was purged since, which covers it and leaves a hash of its own. The error is errEpochs.
func (k *knownEpochs) merge(hash map[string]string, asked time.Time) (*knownEpochs, error) {
	if len(hash) > maxEpochs {
		return nil, fmt.Errorf("%w: %d fields", errEpochs, len(hash))
	}
	next := &knownEpochs{asked: asked, tenants: map[string]uint64{}, routes: map[string]uint64{}}
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
	if len(next.tenants)+len(next.routes) > 2*maxEpochs { // hands took fields out and put others in
		next.purgeAll()
	}
	return next, nil
}

// carry keeps what was known and is now missing or lower.
func carry(now, was map[string]uint64) {
	for name, epoch := range was {
		now[name] = max(now[name], epoch)
	}
}

// purgeAll has everything purged, which covers all that is known.
func (k *knownEpochs) purgeAll() {
	for _, epochs := range []map[string]uint64{k.tenants, k.routes} {
		for _, epoch := range epochs {
			k.all = max(k.all, epoch)
		}
		clear(epochs)
	}
	k.all = min(k.all+1, maxEpoch) // never what it was
}
