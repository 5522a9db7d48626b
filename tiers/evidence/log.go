package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

// The keys share the hash tag {fg} with the other keys of the replicas. None has a TTL, because a full Redis evicts keys
// with a TTL first. The number in their names rises when the format changes.
const (
	// keyRoutes is a sorted set: the routes that have a log, all with the score 0.
	keyRoutes = "foregate:{fg}:log2:routes"
	// keyLog plus a route is the stream of its entries, each as JSON in one field.
	keyLog = "foregate:{fg}:log2:of:"
	// keySnapshot plus a route is a stream of one entry: the states as JSON and its digest, under the id of the last entry
	// in them, so that Redis itself refuses to replace a snapshot by an older one.
	keySnapshot = "foregate:{fg}:log2:state:"
	maxRoutes   = 256     // in all
	maxEntries  = 30000   // of a route's log
	maxEntry    = 8 << 10 // bytes of an entry. One of an audit has 2 KiB at most, so a log has about 59 MiB
	page        = 500     // entries of one read
)

// entryLog is where the entries of all routes are: a [stream] or a [Memory].
type entryLog interface {
	// List returns the routes that have a log.
	List(ctx context.Context) ([]string, error)
	// exchange appends an entry to the log of a route, unless it is nil, and returns its id, and the entries from an id on, that
	// one and the new one included, at most a page, in one round trip. With the entry that begins evidence the route is listed,
	// and its snapshot deleted.
	exchange(ctx context.Context, route string, add *risk.Entry, from risk.ID) (risk.ID, []risk.Message, error)
	// Snapshot returns the snapshot of a route; an empty fold if there is none; errForeign if it is not what was saved.
	Snapshot(ctx context.Context, route string) (*risk.Fold, error)
	// Save replaces the snapshot, unless there is one of the same entry or a later one.
	Save(ctx context.Context, route string, f *risk.Fold) error
}

// stream is the log in Redis. It needs no scripts.
type stream struct{ Redis redis.UniversalClient }

// List implements [entryLog].
func (s *stream) List(ctx context.Context) ([]string, error) {
	return s.Redis.ZRange(ctx, keyRoutes, 0, maxRoutes-1).Result()
}

// exchange implements [entryLog].
func (s *stream) exchange(ctx context.Context, route string, add *risk.Entry, from risk.ID) (own risk.ID, entries []risk.Message, err error) {
	p := s.Redis.Pipeline()
	var added *redis.StringCmd
	if add != nil {
		if add.Do == risk.DoBegin {
			p.ZAdd(ctx, keyRoutes, redis.Z{Member: route})
			p.Unlink(ctx, keySnapshot+route)
		}
		text, err := marshal(add, maxEntry)
		if err != nil {
			return own, nil, err
		}
		added = p.XAdd(ctx, &redis.XAddArgs{Stream: keyLog + route, MaxLen: maxEntries, Approx: true, Values: []any{"e", text}})
	}
	found := p.XRangeN(ctx, keyLog+route, from.String(), "+", page)
	if _, err := p.Exec(ctx); err != nil {
		return own, nil, err
	}
	if added != nil {
		own, err = risk.ParseID(added.Val())
	}
	for _, x := range found.Val() {
		var m risk.Message
		var broken error
		m.ID, broken = risk.ParseID(x.ID)
		err = cmp.Or(err, broken)
		if text, _ := x.Values["e"].(string); len(text) > maxEntry {
			m.Err = fmt.Errorf("%d fields, %d bytes", len(x.Values), len(text))
		} else {
			m.Err = json.Unmarshal([]byte(text), &m.Entry)
		}
		entries = append(entries, m)
	}
	return own, entries, err
}

// marshal makes the JSON of an entry or a snapshot.
func marshal(v any, most int) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > most {
		err = fmt.Errorf("%w: %d bytes, want %d at most", errTooLong, len(text), most)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: %T: %w", v, err)
	}
	return text, nil
}

var (
	errForeign = fmt.Errorf("it is not what was saved: %w", errLost) // a snapshot that no replica has written
	errTooLong = errors.New("too long")                              // Redis was not asked
)

// Snapshot implements [entryLog].
func (s *stream) Snapshot(ctx context.Context, route string) (*risk.Fold, error) {
	f := &risk.Fold{}
	found, err := s.Redis.XRevRangeN(ctx, keySnapshot+route, "+", "-", 1).Result()
	if err != nil || len(found) == 0 {
		return f, err
	}
	text, _ := found[0].Values["s"].(string)
	if found[0].Values["d"] != risk.Digest(text) || json.Unmarshal([]byte(text), f) != nil || f.Last.String() != found[0].ID || !f.IsWhole() {
		return nil, errForeign
	}
	return f, nil
}

// Save implements [entryLog].
func (s *stream) Save(ctx context.Context, route string, f *risk.Fold) error {
	text, err := marshal(f, maxSnapshot)
	if err != nil {
		return fmt.Errorf("%.200s: %w", route, err)
	}
	err = s.Redis.XAdd(ctx, &redis.XAddArgs{
		Stream: keySnapshot + route, ID: f.Last.String(), MaxLen: 1, Values: []any{"s", text, "d", risk.Digest(string(text))},
	}).Err()
	if err != nil && strings.Contains(err.Error(), "equal or smaller") {
		return nil // another replica was faster
	}
	return err
}

// errAway is why a log fails while [Memory.Away] says so.
var errAway = errors.New("evidence: the log is away")

// Memory is a log in this process. It keeps no snapshots: who reads it has read it from the beginning.
type Memory struct {
	Now  func() time.Time
	Away func() bool // reports whether it fails now, for simulations; nil is never

	mu   sync.Mutex
	logs map[string][]risk.Message // by route, at most maxEntries each
}

// Copy returns a log that begins with the entries of m, for a simulation of a later time. Nil has none.
func (m *Memory) Copy(now func() time.Time, away func() bool) *Memory {
	own := &Memory{Now: now, Away: away, logs: map[string][]risk.Message{}}
	if m == nil {
		return own
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for route, entries := range m.logs {
		own.logs[route] = slices.Clone(entries)
	}
	return own
}

// List implements [entryLog].
func (m *Memory) List(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.logs)), m.fails()
}

func (m *Memory) fails() error {
	if m.Away != nil && m.Away() {
		return errAway
	}
	return nil
}

// exchange implements [entryLog].
func (m *Memory) exchange(_ context.Context, route string, add *risk.Entry, from risk.ID) (own risk.ID, entries []risk.Message, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails(); err != nil {
		return own, nil, err
	}
	list := m.logs[route]
	if add != nil {
		own = risk.ID{MS: uint64(m.Now().UnixMilli())}
		if n := len(list); n > 0 && own.Compare(list[n-1].ID) <= 0 {
			own = risk.ID{MS: list[n-1].ID.MS, Seq: list[n-1].ID.Seq + 1}
		}
		if list = append(list, risk.Message{ID: own, Entry: *add}); len(list) > maxEntries {
			list = slices.Delete(list, 0, maxEntries/10)
		}
		if m.logs == nil {
			m.logs = map[string][]risk.Message{}
		}
		m.logs[route] = list
	}
	at, _ := slices.BinarySearchFunc(list, from, func(x risk.Message, id risk.ID) int { return x.ID.Compare(id) })
	return own, slices.Clone(list[at:min(at+page, len(list))]), nil
}

// Snapshot implements [entryLog].
func (m *Memory) Snapshot(context.Context, string) (*risk.Fold, error) {
	return &risk.Fold{}, m.fails()
}

// Save implements [entryLog].
func (m *Memory) Save(context.Context, string, *risk.Fold) error { return nil }
