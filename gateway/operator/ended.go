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

// keyEnded is a sorted set: ids of sessions that were ended, by the second at which each would have been over. It
// has no TTL, because a full Redis evicts keys with one first.
const keyEnded = "foregate:{fg}:sessions:ended"

const (
	maxEnded      = 1024 // sessions that were ended before their time, see below
	maxSkew       = 5 * time.Minute
	exchangeEvery = time.Second
	exchangeTime  = time.Second // for one exchange with Redis
)

// ends are sessions that were ended: each by its id, with the second at which it would have been over. Where there
// are too many of them, those that would be over first are forgotten, and floor keeps them from coming back:
// no session is good that would be over by then. It is not changed.
type ends struct {
	by    map[string]int64
	floor int64
}

func (e ends) has(x Session) bool {
	_, ended := e.by[x.id]
	return ended || x.over <= e.floor
}

// with is e and more, without what is over anyway. Clocks of replicas may differ by maxSkew.
func (e ends) with(more map[string]int64, now time.Time) ends {
	all := ends{by: make(map[string]int64, len(e.by)+len(more)), floor: e.floor}
	for _, from := range []map[string]int64{e.by, more} {
		for id, over := range from {
			if over > now.Add(-maxSkew).Unix() && over <= now.Add(SessionTime+maxSkew).Unix() {
				all.by[id] = over
			}
		}
	}
	if len(all.by) >= maxEnded {
		times := slices.Sorted(maps.Values(all.by))
		all.floor = max(all.floor, times[len(times)-maxEnded])
		maps.DeleteFunc(all.by, func(_ string, over int64) bool { return over < all.floor })
	}
	return all
}

// ended keeps ends, and shares them with the other replicas.
type ended struct {
	redis redis.UniversalClient // nil: there are no others
	log   zerolog.Logger

	mu      sync.Mutex
	ends    ends
	refused bool // Redis has answered with an error, which was told
}

func (e *ended) has(x Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ends.has(x)
}

// add notes what was ended, and returns all that was.
func (e *ended) add(more map[string]int64, now time.Time) ends {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = e.ends.with(more, now)
	return e.ends
}

// tell is exchange for a loop. That Redis is silent is told elsewhere; what it answers is told once.
func (e *ended) tell(ctx context.Context, now func() time.Time) {
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

// exchange takes what other replicas have ended, and tells them what Redis does not know, or has lost.
func (e *ended) exchange(ctx context.Context, now func() time.Time) error {
	if e.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	read, err := e.redis.ZRangeWithScores(ctx, keyEnded, -maxEnded, -1).Result() // those that are over last
	if err != nil {
		return fmt.Errorf("operator: read %s: %w", keyEnded, err)
	}
	theirs := make(map[string]int64, len(read))
	for _, z := range read {
		if id, ok := z.Member.(string); ok && len(id) == spelling.EncodedLen(nonceBytes) {
			theirs[id] = int64(z.Score)
		}
	}
	t := now()
	all := e.add(theirs, t)
	_, err = e.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		var lacks []redis.Z
		for id, over := range all.by {
			if _, known := theirs[id]; !known {
				lacks = append(lacks, redis.Z{Score: float64(over), Member: id})
			}
		}
		if len(lacks) > 0 {
			p.ZAdd(ctx, keyEnded, lacks...)
		}
		if first := max(all.floor, t.Add(-maxSkew).Unix()); len(read) > 0 && int64(read[0].Score) < first || len(read) == maxEnded {
			p.ZRemRangeByScore(ctx, keyEnded, "-inf", "("+strconv.FormatInt(first, 10))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("operator: write %s: %w", keyEnded, err)
	}
	return nil
}
