// Package entrylog has the logs of the evidence of audits: one for each route, a stream in Redis, or in this process. What
// their entries are is told by package risk.
package entrylog

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
	// KeyRoutes is a sorted set: the routes that have a log, all with the score 0.
	KeyRoutes = "foregate:{fg}:log1:routes"
	// KeyLog plus a route is the stream of its entries, each as JSON in one field.
	KeyLog = "foregate:{fg}:log1:of:"
	// KeySnapshot plus a route is a stream of one entry: the states as JSON, under the id of the last entry in them, so
	// that Redis itself refuses to replace a snapshot by an older one.
	KeySnapshot = "foregate:{fg}:log1:state:"
	MaxRoutes   = 256     // in all
	MaxEntries  = 30000   // of a route's log
	MaxEntry    = 2 << 10 // bytes of an entry, so that a log has 59 MiB at most
	Page        = 500     // entries of one read
)

// Log is where the entries of all routes are: a [Stream] or a [Memory].
type Log interface {
	// List returns the routes that have a log.
	List(ctx context.Context) ([]string, error)
	// Exchange appends and reads, for several routes in one round trip.
	Exchange(ctx context.Context, asks []Ask) ([]Answer, error)
	// Snapshot returns the id and the text of the snapshot of a route; the zero ID is none.
	Snapshot(ctx context.Context, route string) (risk.ID, string, error)
	// Save replaces the snapshot, unless there is one of the same entry or a later one.
	Save(ctx context.Context, route string, id risk.ID, text string) error
}

// Ask is what is asked of the log of one route: to append an entry, nil for none, and then for the entries from an id on.
// With the entry that begins evidence the route is listed, and its snapshot deleted.
type Ask struct {
	Route string
	Add   *risk.Entry
	From  risk.ID
}

// Answer has the id of the new entry, and the entries from the id on, that one included, at most a page.
type Answer struct {
	Added risk.ID
	Found []risk.Message
	Err   error // of this route alone
}

// Stream is the log in Redis. It needs no scripts.
type Stream struct{ Redis redis.UniversalClient }

// List implements [Log].
func (s *Stream) List(ctx context.Context) ([]string, error) {
	return s.Redis.ZRange(ctx, KeyRoutes, 0, MaxRoutes-1).Result()
}

// Exchange implements [Log].
func (s *Stream) Exchange(ctx context.Context, asks []Ask) ([]Answer, error) {
	p := s.Redis.Pipeline()
	added, found := make([]*redis.StringCmd, len(asks)), make([]*redis.XMessageSliceCmd, len(asks))
	for i, a := range asks {
		if a.Add != nil && a.Add.Do == risk.DoBegin {
			p.ZAdd(ctx, KeyRoutes, redis.Z{Member: a.Route})
			p.Unlink(ctx, KeySnapshot+a.Route)
		}
		if a.Add != nil {
			text, err := json.Marshal(a.Add)
			if err != nil || len(text) > MaxEntry {
				return nil, fmt.Errorf("evidence: an entry of %d bytes, want %d at most: %w", len(text), MaxEntry, err)
			}
			added[i] = p.XAdd(ctx, &redis.XAddArgs{Stream: KeyLog + a.Route, MaxLen: MaxEntries, Approx: true, Values: []any{"e", text}})
		}
		found[i] = p.XRangeN(ctx, KeyLog+a.Route, a.From.String(), "+", Page)
	}
	if _, err := p.Exec(ctx); err != nil && !script.Answered(err) {
		return nil, err
	}
	out := make([]Answer, len(asks))
	for i := range asks {
		out[i] = parse(found[i])
		if added[i] != nil && out[i].Err == nil {
			if out[i].Err = added[i].Err(); out[i].Err == nil {
				out[i].Added, out[i].Err = risk.ParseID(added[i].Val())
			}
		}
	}
	return out, nil
}

func parse(cmd *redis.XMessageSliceCmd) (a Answer) {
	list, err := cmd.Result()
	a.Found, a.Err = make([]risk.Message, len(list)), err
	for i, x := range list {
		m := &a.Found[i]
		m.ID, err = risk.ParseID(x.ID)
		a.Err = cmp.Or(a.Err, err)
		text, _ := x.Values["e"].(string)
		if len(text) > MaxEntry {
			m.Err = fmt.Errorf("%d fields, %d bytes", len(x.Values), len(text))
			continue
		}
		m.Err = json.Unmarshal([]byte(text), &m.Entry)
	}
	return a
}

// Snapshot implements [Log].
func (s *Stream) Snapshot(ctx context.Context, route string) (id risk.ID, text string, err error) {
	found, err := s.Redis.XRevRangeN(ctx, KeySnapshot+route, "+", "-", 1).Result()
	if err != nil || len(found) == 0 {
		return risk.ID{}, "", err
	}
	text, _ = found[0].Values["s"].(string)
	id, err = risk.ParseID(found[0].ID)
	return id, text, err
}

// Save implements [Log].
func (s *Stream) Save(ctx context.Context, route string, id risk.ID, text string) error {
	err := s.Redis.XAdd(ctx, &redis.XAddArgs{Stream: KeySnapshot + route, ID: id.String(), MaxLen: 1, Values: []any{"s", text}}).Err()
	if err != nil && strings.Contains(err.Error(), "equal or smaller") {
		return nil // another replica was faster
	}
	return err
}
