package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/redis/calls"
)

// When Redis loses its data, nobody meant the settings to change. So replicas keep those in force that it lost, and one of
// them publishes them again. If they may not, each keeps telling the others what was lost (Tell, Take), until somebody sets
// it again.

const (
	republishDeadline = time.Second     // of all its round trips
	maxToldAge        = 2 * time.Second // of another replica's loss that is believed
)

// Replicas is the author of entries about settings that replicas published again.
const Replicas = "foregate"

// lostWith returns what a loss of data has changed: after a return to older data everything that differs, else what is
// missing, because the rest was set since.
func lostWith(loss calls.Loss, known, found map[string]string) []Change {
	if loss == calls.NoLoss {
		return nil
	}
	changes := changesOf(kept(known), kept(found))
	if loss == calls.OtherData {
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

// readFields reads the hash, and what of it was lost since the last read. The detector looks after the hash was read: before it,
// a loss in between would look like a deletion. After a loss the hash is read again, because it may be from before: if that
// fails, the loss is remembered for the next read.
func (w *Watcher) readFields(ctx context.Context) (map[string]string, calls.Loss, error) {
	pipe := w.o.Redis.Pipeline()
	hash := pipe.HGetAll(ctx, Key)
	look := w.detector.Queue(ctx, pipe)
	_ = w.scripts.Exec(ctx, pipe, readDeadline) // each command has its error
	fields, err := shortened(hash.Result())
	if err != nil {
		return nil, calls.NoLoss, err
	}
	loss, err := look()
	switch {
	case err != nil && !calls.Answered(err):
		return nil, calls.NoLoss, fmt.Errorf("settings: read %s: %w", RunKey, err)
	case err != nil && !w.bare:
		w.o.Logger.Warn().Err(err).Str("key", RunKey).Msg("settings are not safe from a Redis that comes back empty: its run cannot be kept (deploy/redis/users.acl)")
	}
	w.bare = err != nil
	if w.loss = max(w.loss, loss); w.loss == calls.NoLoss {
		return fields, w.loss, nil
	}
	if fields, err = readHash(ctx, w.o.Redis); err != nil {
		return nil, calls.NoLoss, err
	}
	loss, w.loss = w.loss, calls.NoLoss
	return fields, loss, nil
}

// keep returns the fields with the settings that Redis has lost.
func (w *Watcher) keep(fields map[string]string, loss calls.Loss) map[string]string {
	if len(fields) > maxFields {
		return fields // the last good ones stay in force as a whole
	}
	lost := pending(with(w.Lost(), lostWith(loss, w.raw, fields)), fields)
	w.setLost(lost)
	switch loss {
	case calls.NoLoss:
		return undo(fields, lost)
	case calls.OtherData:
		w.since = w.detector.Run()
	default:
		w.since = 0
	}
	if len(lost) > 0 {
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
	ctx, cancel := context.WithTimeout(ctx, republishDeadline)
	defer cancel()
	w.mu.Lock()
	since := w.since
	w.mu.Unlock()
	err := w.o.Store.republish(ctx, lost, since)
	switch {
	case err == nil || errors.Is(err, errRepublished):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.setLost(nil)
		w.settled = since
		w.read, w.unpublished = false, false // the next read puts into force what Redis has
		w.o.Logger.Info().Strs("settings", namesOf(lost)).Msg("settings that Redis had lost are published again")
	case calls.Answered(err):
		if !w.unpublished {
			w.o.Logger.Error().Err(err).Msg("settings that Redis has lost cannot be published again; they stay in force on running replicas until somebody sets them")
		}
		w.unpublished = true
	}
}

// Tell returns what Redis has lost of the settings and nobody has set since, by name, for the other replicas.
func (w *Watcher) Tell() map[string]string {
	told := map[string]string{}
	for _, c := range w.Lost() {
		if text, err := json.Marshal(c); err == nil {
			told[c.Name] = string(text)
		}
	}
	return told
}

// Take hears from another replica of a setting that Redis has lost. It comes into force with the next read. A replica that is
// told late, after the settings are published again, does not take back what somebody has unset since.
func (w *Watcher) Take(name, text string, age time.Duration) {
	var c Change
	if age > maxToldAge || json.Unmarshal([]byte(text), &c) != nil || c.Name != name {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.detector.Run()
	if !w.read || !is(w.raw, c.Name, c.New) || run != 0 && run == w.settled {
		return
	}
	if len(w.Lost()) == 0 {
		w.since = run
	}
	lost := with(w.Lost(), []Change{c})
	w.lost.Store(&lost)
}

// errRepublished says that another replica has published lost settings, maybe long ago.
var errRepublished = errors.New("another replica has published the settings again")

// republish writes lost settings as they were in force. If Redis has other data, of this run, another replica may have done so
// long ago, and what is missing be unset since; run 0 is none. It looks for that in each try, because the other one may do so
// meanwhile.
func (s *Store) republish(ctx context.Context, lost []Change, run int64) error {
	o := Edit{Who: Replicas, Why: fmt.Sprintf("Redis had lost data (run %d); these were in force", run), Force: true}
	_, err := s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		done := false
		if err := s.History(ctx, func(e Entry) bool {
			done = run != 0 && e.Who == o.Who && e.Why == o.Why
			return !done && run != 0
		}); err != nil {
			return nil, err
		}
		if done {
			return nil, errRepublished
		}
		return undo(now, pending(lost, now)), nil
	})
	return err
}
