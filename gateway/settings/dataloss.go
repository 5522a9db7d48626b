package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
)

// When Redis loses its data, nobody meant the settings to change. A replica finds that by the log, whose newest version never
// falls otherwise. It keeps the settings in force that Redis has lost, and publishes them again, as a version above all that it
// knew, by which the others see that it is done. If no replica may write, each keeps them until somebody sets them again.

const republishDeadline = time.Second // of all its round trips

// Replicas is the author of entries about settings that replicas published again.
const Replicas = "foregate"

// readRedis reads the hash and the newest entry of the log, both at one time.
func (w *Watcher) readRedis(ctx context.Context) (map[string]string, Entry, error) {
	var hash *redis.MapStringStringCmd
	var log *redis.XMessageSliceCmd
	_, err := w.o.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		hash, log = p.HGetAll(ctx, Key), p.XRevRangeN(ctx, LogKey, "+", "-", 1)
		return nil
	})
	var head Entry
	if newest := log.Val(); len(newest) > 0 {
		head, _ = parseEntry(newest[0]) // what is no entry is of version 0
	}
	fields, err := shortened(hash.Val(), err)
	return fields, head, err
}

// lostWith returns what a loss of data has changed: after a return to older data everything that differs, else what is
// missing, because the rest was set since.
func (w *Watcher) lostWith(head Entry, found map[string]string) []Change {
	if head.Version >= w.head.Version {
		return nil
	}
	changes := changesOf(kept(w.raw), kept(found))
	if head.Version == 0 || head.When.After(w.head.When) {
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.New != nil })
	}
	return changes
}

// pending are the changes that nobody has made good or overridden: the fields are as the loss left them.
func pending(lost []Change, fields map[string]string) []Change {
	return slices.DeleteFunc(slices.Clone(lost), func(c Change) bool { return !is(fields, c.Name, c.New) })
}

// with returns the changes, and those of more whose fields have none yet, up to maxFields, sorted.
func with(lost, more []Change) []Change {
	lost = slices.Concat(lost, more)
	slices.SortStableFunc(lost, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	lost = slices.CompactFunc(lost, func(a, b Change) bool { return a.Name == b.Name })
	return lost[:min(len(lost), maxFields)]
}

// keep returns the fields with the settings that Redis has lost.
func (w *Watcher) keep(fields map[string]string, head Entry) map[string]string {
	if len(fields) > maxFields {
		return fields // the last good ones stay in force as a whole
	}
	found := head.Version < w.head.Version
	lost := pending(with(w.Lost(), w.lostWith(head, fields)), fields)
	w.version, w.head = max(w.version, head.Version), head
	w.setLost(lost)
	if found && len(lost) > 0 {
		w.o.Logger.Error().Strs("settings", namesOf(lost)).Int("count", len(lost)).Msg("Redis has lost data; the settings that went with them stay in force and are published again")
	}
	return undo(fields, lost)
}

// namesOf are the names of the first changes, for the log.
func namesOf(changes []Change) []string {
	var names []string
	for _, c := range changes[:min(len(changes), maxLines)] {
		names = append(names, show(c.Name))
	}
	return names
}

func (w *Watcher) setLost(lost []Change) {
	w.lost.Store(&lost)
	w.metrics.lost.Set(float64(len(lost)))
}

// republish writes settings again that Redis has lost. What fails is tried again after the next read.
func (w *Watcher) republish(ctx context.Context) {
	lost := w.Lost()
	if len(lost) == 0 || w.o.Store == nil {
		return
	}
	w.mu.Lock()
	version := w.version
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, republishDeadline)
	defer cancel()
	err := w.o.Store.republish(ctx, lost, version)
	switch {
	case err == nil || errors.Is(err, errRepublished):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.setLost(nil)
		w.read, w.unpublished = false, false // the next read puts into force what Redis has
		w.o.Logger.Info().Strs("settings", namesOf(lost)).Msg("settings that Redis had lost are published again")
	case calls.Answered(err):
		if !w.unpublished {
			w.o.Logger.Error().Err(err).Msg("settings that Redis has lost cannot be published again; they stay in force on running replicas until somebody sets them")
		}
		w.unpublished = true
	}
}

// errRepublished says that another replica has published lost settings, maybe long ago.
var errRepublished = errors.New("another replica has published the settings again")

// republish writes lost settings as they were in force, unless the log has a version above the highest that was known: another
// replica has done so, maybe long ago, and what is missing was unset since.
func (s *Store) republish(ctx context.Context, lost []Change, version int64) error {
	o := Edit{Who: Replicas, Why: fmt.Sprintf("Redis had lost data; these were in force after version %d", version), Force: true, above: version}
	_, err := s.change(ctx, o, func(now map[string]string) (map[string]string, error) { return undo(now, pending(lost, now)), nil })
	return err
}
