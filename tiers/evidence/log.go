package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// The keys share the hash tag {fg} with the other keys of the replicas. None has a TTL, because a full Redis evicts keys
// with a TTL first. The number in their names rises when the format changes.
const (
	// keyRoutes is a sorted set: the routes that have a log, all with the score 0.
	keyRoutes = "foregate:{fg}:log1:routes"
	// keyLog plus a route is the stream of its entries, each as JSON in one field.
	keyLog = "foregate:{fg}:log1:of:"
	// keySnapshot plus a route is a stream of one entry: the states as JSON, under the id of the last entry in them, so
	// that Redis itself refuses to replace a snapshot by an older one.
	keySnapshot = "foregate:{fg}:log1:state:"
)

const (
	maxRoutes   = 256
	maxEntries  = 30000   // of a route's log
	maxEntry    = 2 << 10 // bytes of an entry, so that a log has 59 MiB at most
	maxSnapshot = 4 << 20 // bytes
	saveEvery   = 1000    // entries between two snapshots
	page        = 500     // entries of one read
)

// log is where the entries of all routes are: a [stream] or a [Memory].
type log interface {
	// list returns the routes that have a log.
	list(ctx context.Context) ([]string, error)
	// exchange appends and reads, for several routes in one round trip.
	exchange(ctx context.Context, asks []ask) ([]answer, error)
	// snapshot returns the id and the text of the snapshot of a route; the zero ID is none.
	snapshot(ctx context.Context, route string) (risk.ID, string, error)
	// save replaces the snapshot, unless there is one of the same entry or a later one.
	save(ctx context.Context, route string, id risk.ID, text string) error
}

// ask is what is asked of the log of one route: to append an entry, nil for none, and then for the entries from an id on.
// With the entry that begins evidence the route is listed, and its snapshot deleted.
type ask struct {
	route string
	add   *risk.Entry
	from  risk.ID
}

// answer has the id of the new entry, and the entries from the id on, that one included, at most a page.
type answer struct {
	added risk.ID
	found []risk.Message
	err   error // of this route alone
}

// stream is the log in Redis. It needs no scripts.
type stream struct{ redis.UniversalClient }

func (s *stream) list(ctx context.Context) ([]string, error) {
	return s.ZRange(ctx, keyRoutes, 0, maxRoutes-1).Result()
}

func (s *stream) exchange(ctx context.Context, asks []ask) ([]answer, error) {
	p := s.Pipeline()
	added, found := make([]*redis.StringCmd, len(asks)), make([]*redis.XMessageSliceCmd, len(asks))
	for i, a := range asks {
		if a.add != nil && a.add.Do == risk.DoBegin {
			p.ZAdd(ctx, keyRoutes, redis.Z{Member: a.route})
			p.Del(ctx, keySnapshot+a.route)
		}
		if a.add != nil {
			text, err := json.Marshal(a.add)
			if err != nil || len(text) > maxEntry {
				return nil, fmt.Errorf("evidence: an entry of %d bytes, want %d at most: %w", len(text), maxEntry, err)
			}
			added[i] = p.XAdd(ctx, &redis.XAddArgs{Stream: keyLog + a.route, MaxLen: maxEntries, Approx: true, Values: []any{"e", text}})
		}
		found[i] = p.XRangeN(ctx, keyLog+a.route, a.from.String(), "+", page)
	}
	if _, err := p.Exec(ctx); err != nil && !script.Answered(err) {
		return nil, err
	}
	out := make([]answer, len(asks))
	for i := range asks {
		out[i] = parse(found[i])
		if added[i] != nil && out[i].err == nil {
			if out[i].err = added[i].Err(); out[i].err == nil {
				out[i].added, out[i].err = risk.ParseID(added[i].Val())
			}
		}
	}
	return out, nil
}

func parse(cmd *redis.XMessageSliceCmd) (a answer) {
	list, err := cmd.Result()
	a.found, a.err = make([]risk.Message, len(list)), err
	for i, x := range list {
		m := &a.found[i]
		m.ID, err = risk.ParseID(x.ID)
		a.err = cmp.Or(a.err, err)
		text, _ := x.Values["e"].(string)
		if len(text) > maxEntry {
			m.Err = fmt.Errorf("%d fields, %d bytes", len(x.Values), len(text))
			continue
		}
		m.Err = json.Unmarshal([]byte(text), &m.Entry)
	}
	return a
}

func (s *stream) snapshot(ctx context.Context, route string) (id risk.ID, text string, err error) {
	found, err := s.XRevRangeN(ctx, keySnapshot+route, "+", "-", 1).Result()
	if err != nil || len(found) == 0 {
		return risk.ID{}, "", err
	}
	text, _ = found[0].Values["s"].(string)
	id, err = risk.ParseID(found[0].ID)
	return id, text, err
}

func (s *stream) save(ctx context.Context, route string, id risk.ID, text string) error {
	err := s.XAdd(ctx, &redis.XAddArgs{Stream: keySnapshot + route, ID: id.String(), MaxLen: 1, Values: []any{"s", text}}).Err()
	if err != nil && strings.Contains(err.Error(), "equal or smaller") {
		return nil // another replica was faster
	}
	return err
}
