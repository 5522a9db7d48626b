package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/prefix"
)

const (
	maxPlaced   = 512         // placements per pool and tick
	keptEntries = 8192        // of a pool's log, approximately
	readEntries = 256         // of a pool's log in one tick
	firstAge    = time.Minute // of the oldest entry that a new replica reads
	// warmFor is the maximum age of an entry that is read: prefix.Table forgets at the same age.
	warmFor = 5 * time.Minute
	// maxPayload bounds the bytes of an entry: 512 placements on 512 backends.
	maxPayload = maxPlaced * (2*maxID + 100)
)

var errNoPlacements = errors.New("no placements")

// placed is a placement on a backend, by which an entry's are grouped.
type placed struct {
	Key  uint64 `json:"k"`
	Size int    `json:"n"` // tokens
	Own  int    `json:"o,omitempty"`
	Cold bool   `json:"c,omitempty"`
}

// encodePlacements encodes placements by backend. Values out of range are left out; "" is none.
func encodePlacements(placements []prefix.Placement) string {
	by := map[string][]placed{}
	for _, p := range placements[:min(len(placements), maxPlaced)] {
		if placeable(p) {
			by[p.Backend] = append(by[p.Backend], placed{uint64(p.Key), p.Tokens, p.Own, p.Cold})
		}
	}
	text, err := json.Marshal(by)
	if err != nil || len(by) == 0 {
		return ""
	}
	return string(text)
}

func placeable(p prefix.Placement) bool {
	return p.Backend != "" && len(p.Backend) <= maxID && p.Own >= 0 && p.Own <= p.Tokens && p.Tokens <= math.MaxInt32
}

// decodePlacements appends decoded placements to into, all or none, in the same order at all replicas.
func decodePlacements(into []prefix.Placement, text string) ([]prefix.Placement, error) {
	var by map[string][]placed
	if len(text) > maxPayload || json.Unmarshal([]byte(text), &by) != nil {
		return into, errNoPlacements
	}
	values := into
	for _, backend := range slices.Sorted(maps.Keys(by)) {
		for _, v := range by[backend] {
			p := prefix.Placement{Key: prefix.Key(v.Key), Backend: backend, Tokens: v.Size, Own: v.Own, Cold: v.Cold}
			if !placeable(p) || len(values)-len(into) == maxPlaced {
				return into, errNoPlacements
			}
			values = append(values, p)
		}
	}
	return values, nil
}

// Place sends placements at the next tick, in this order: up to 512 per pool and tick; more are dropped. It never
// blocks, and keeps no reference to them. Those of a failed tick are dropped, because some may have arrived.
func (f *Fleet) Place(pool string, placements []prefix.Placement) {
	p := f.pool(pool)
	if p == nil || f.redis == nil {
		return
	}
	f.queueMu.Lock()
	defer f.queueMu.Unlock()
	room := min(len(placements), maxPlaced-len(p.toPlace))
	p.toPlace = append(p.toPlace, placements[:room]...)
}

// queuePlacements sends a pool's placements and reads the new entries of its log. Where nothing of it was read, as in a new
// replica or after a loss of data, that begins at those of the last minute.
func (f *Fleet) queuePlacements(t *turn, p *pool) {
	ctx := context.Background() // the round trip has the deadline
	f.queueMu.Lock()
	packed := encodePlacements(p.toPlace)
	p.toPlace = nil
	f.queueMu.Unlock()
	if packed != "" {
		t.calls = append(t.calls, call{kind: errPlaced, key: p.log, cmd: t.pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: p.log, MaxLen: keptEntries, Approx: true, Values: []any{"by", f.self, "said", packed},
		})})
	}
	if f.clock.at.IsZero() {
		return
	}
	if p.lastEntry == "" {
		p.lastEntry = strconv.FormatInt(max(f.clock.when(t.at)-firstAge.Milliseconds(), 0), 10)
	}
	read := t.pipe.XRead(ctx, &redis.XReadArgs{Streams: []string{p.log, p.lastEntry}, Count: readEntries, Block: -1})
	t.calls = append(t.calls, call{cmd: read, kind: errPlaced, key: p.log, receive: func() (err error) {
		for _, s := range read.Val() {
			err = f.receivePlacements(t, p, s.Messages)
		}
		return err
	}})
}

// receivePlacements passes other replicas' placements to a pool.
func (f *Fleet) receivePlacements(t *turn, p *pool, entries []redis.XMessage) (problem error) {
	var placements []prefix.Placement
	for _, e := range entries {
		p.lastEntry = e.ID
		at, _, _ := strings.Cut(e.ID, "-")
		ms, _ := strconv.ParseInt(at, 10, 64) // one that is no time is old
		by, _ := e.Values["by"].(string)
		said, _ := e.Values["said"].(string)
		if by == f.self || f.clock.when(t.at)-ms > warmFor.Milliseconds() {
			continue
		}
		var err error
		if placements, err = decodePlacements(placements, said); err != nil {
			problem = fmt.Errorf("entry %s of %s: %w", e.ID, p.log, err)
		}
	}
	if len(placements) > 0 {
		p.ReceivePlacements(placements)
	}
	return problem
}
