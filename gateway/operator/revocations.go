package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// keyRevoked is a sorted set: ids of ended sessions, by the second at which each would have expired. It has
// no TTL, because a full Redis evicts keys with a TTL first.
const keyRevoked = "foregate:{fg}:sessions:ended"

const (
	maxRevoked       = 1024 // sessions that were ended early, see below
	maxSkew          = 5 * time.Minute
	exchangeInterval = time.Second
	exchangeTimeout  = time.Second // for one exchange with Redis
)

// revokedSet holds the sessions that were ended early: each id with the second at which the session would
// expire. If there are too many, the ones that expire first are dropped, and floor keeps them invalid: no
// session that expires by then is valid. It is immutable.
type revokedSet struct {
	expiries map[string]int64
	floor    int64
}

func (e revokedSet) has(x Session) bool {
	_, ended := e.expiries[x.id]
	return ended || x.expires <= e.floor
}

// merge returns e and more, without expired sessions. Replicas' clocks may differ by maxSkew.
func (e revokedSet) merge(more map[string]int64, now time.Time) revokedSet {
	all := revokedSet{expiries: make(map[string]int64, len(e.expiries)+len(more)), floor: e.floor}
	for _, from := range []map[string]int64{e.expiries, more} {
		for id, over := range from {
			if over > now.Add(-maxSkew).Unix() && over <= now.Add(SessionLifetime+maxSkew).Unix() {
				all.expiries[id] = over
			}
		}
	}
	if len(all.expiries) >= maxRevoked {
		times := slices.Sorted(maps.Values(all.expiries))
		all.floor = max(all.floor, times[len(times)-maxRevoked])
		maps.DeleteFunc(all.expiries, func(_ string, over int64) bool { return over < all.floor })
	}
	return all
}

// revocations stores the ended sessions, and shares them with the other replicas.
type revocations struct {
	redis redis.UniversalClient // nil: no other replicas
	log   zerolog.Logger

	mu      sync.Mutex
	revoked revokedSet
	refused bool // Redis answered with an error, which was logged
}

func (e *revocations) has(x Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.revoked.has(x)
}

// add records ended sessions, and returns all.
func (e *revocations) add(more map[string]int64, now time.Time) revokedSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revoked = e.revoked.merge(more, now)
	return e.revoked
}

// exchangeAndLog is exchange for a loop. A silent Redis is reported elsewhere; an error of Redis is logged
// once.
func (e *revocations) exchangeAndLog(ctx context.Context, now func() time.Time) {
	err := e.exchange(ctx, now)
	_, answered := errors.AsType[redis.Error](err)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case answered && !e.refused:
		e.log.Warn().Err(err).Msg("replicas cannot tell each other of sessions that end at sign-out")
	case err == nil && e.refused:
		e.log.Info().Msg("replicas tell each other again of sessions that end at sign-out")
	}
	e.refused = answered || (e.refused && err != nil)
}

// exchange reads the sessions that other replicas have ended, and writes those that Redis does not know, or
// has lost.
func (e *revocations) exchange(ctx context.Context, now func() time.Time) error {
	if e.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	read, err := e.redis.ZRangeWithScores(ctx, keyRevoked, -maxRevoked, -1).Result() // the ones that expire last
	if err != nil {
		return fmt.Errorf("operator: read %s: %w", keyRevoked, err)
	}
	theirs := make(map[string]int64, len(read))
	for _, z := range read {
		if id, ok := z.Member.(string); ok && len(id) == encoding.EncodedLen(nonceBytes) {
			theirs[id] = int64(z.Score)
		}
	}
	t := now()
	all := e.add(theirs, t)
	_, err = e.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		var missing []redis.Z
		for id, over := range all.expiries {
			if _, known := theirs[id]; !known {
				missing = append(missing, redis.Z{Score: float64(over), Member: id})
			}
		}
		if len(missing) > 0 {
			p.ZAdd(ctx, keyRevoked, missing...)
		}
		if first := max(all.floor, t.Add(-maxSkew).Unix()); len(read) > 0 && int64(read[0].Score) < first || len(read) == maxRevoked {
			p.ZRemRangeByScore(ctx, keyRevoked, "-inf", "("+strconv.FormatInt(first, 10))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("operator: write %s: %w", keyRevoked, err)
	}
	return nil
}
