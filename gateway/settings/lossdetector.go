package settings

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

//go:embed marker.lua
var markText string

var markScript = script.New(markText)

// lossDetector reads and writes the marker, which distinguishes a loss of data from an intended change. It
// belongs to one goroutine at a time.
type lossDetector struct {
	redis         redis.UniversalClient
	lastKnown     knownState
	lossPublished bool // the last read found a published loss in Redis
}

// readMarker reads the marker and the published loss. It must run after the hash was read: in the other
// order, a Redis that loses its data in between would look as if it had been emptied on purpose. forbidden
// means that Redis does not allow reading the marker: then no loss can be found here.
func (g *lossDetector) readMarker(ctx context.Context) (f readState, forbidden, err error) {
	pipe := g.redis.Pipeline()
	marker := pipe.HMGet(ctx, MarkerKey, markerID, markerChanges)
	recorded := pipe.HGet(ctx, LossKey, lossField)
	_, _ = pipe.Exec(ctx) // each result is checked below
	values, err := marker.Result()
	switch {
	case err == nil:
		f.mark = parseMark(values[0], values[1])
	case refuses(err):
		forbidden = forbids(MarkerKey, err)
		f.mark = g.lastKnown.mark
	default:
		return readState{}, nil, fmt.Errorf("settings: read %s: %w", MarkerKey, err)
	}
	if text, err := recorded.Result(); err == nil {
		f.publishedLoss, _ = parseLoss(text) // an invalid one is overwritten or deleted
	}
	g.lossPublished = recorded.Err() == nil
	return f, forbidden, nil
}

// update computes the settings in force from what was read, and publishes it for the other replicas, unless
// that is forbidden. It returns why a loss cannot be found or published here.
func (g *lossDetector) update(ctx context.Context, f readState, forbidden error) error {
	before := g.lastKnown
	g.lastKnown = before.merge(f)
	if forbidden != nil {
		return forbidden
	}
	return g.publish(ctx, before, f)
}

// publish writes what the other replicas must know. A failed write is repeated after the next read; an error
// means that writing is forbidden.
func (g *lossDetector) publish(ctx context.Context, before knownState, f readState) error {
	forbidden := g.publishLoss(ctx, f)
	if !g.lastKnown.shouldCount(before, f) {
		return forbidden
	}
	m, err := g.countChange(ctx, before.mark)
	switch {
	case err == nil && m.id != "":
		g.lastKnown.mark = m
	case f.mark.id == "": // not created: Redis may have been emptied since the hash was read; the next read finds out
		g.lastKnown.mark = before.mark
	}
	if err != nil && refuses(err) {
		return forbids(MarkerKey, err)
	}
	return forbidden
}

// publishLoss writes a loss, or deletes a finished one.
func (g *lossDetector) publishLoss(ctx context.Context, f readState) error {
	var err error
	switch {
	case g.lastKnown.loss != nil && f.publishedLoss == nil:
		var text []byte
		if text, err = json.Marshal(g.lastKnown.loss); err != nil {
			return err
		}
		if len(text) > maxLoss {
			return fmt.Errorf("%s may hold %d bytes, and the loss is %d: replicas that start now do not hear of it", LossKey, maxLoss, len(text))
		}
		err = g.redis.HSet(ctx, LossKey, lossField, text).Err()
	case g.lastKnown.loss == nil && g.lossPublished:
		err = g.redis.Del(ctx, LossKey).Err()
	}
	if err != nil && refuses(err) {
		return forbids(LossKey, err)
	}
	return nil
}

// forbids is a permanent error of Redis, with its remedy.
func forbids(key string, err error) error {
	return fmt.Errorf("let this user write %s (deploy/redis/users.acl): %w", key, err)
}

// countChange counts a change in the marker. A new marker continues the last known one.
func (g *lossDetector) countChange(ctx context.Context, last marker) (marker, error) {
	if last.id == "" {
		last.id = rand.Text()
	}
	args := []any{Key, last.id, strconv.FormatInt(last.changes, 10)}
	got, err := script.NewRunner(g.redis, markScript).Run(ctx, markScript, []string{MarkerKey}, args...).StringSlice()
	if err != nil || len(got) != 2 {
		return marker{}, err
	}
	return parseMark(got[0], got[1]), nil
}

// lost returns the settings that are in force although Redis has lost them.
func (g *lossDetector) lost(fields map[string]string) []Change {
	return g.lastKnown.loss.pending(fields)
}

// refuses reports whether Redis will always refuse the same command.
func refuses(err error) bool {
	return script.Answered(err) && (strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "WRONGTYPE"))
}
