package settings

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// Store changes the settings and reads their history. It is for people and scripts, a few changes a minute:
// every call takes several round trips, and waits as long as its context allows. A change is first logged and
// then made. Each step is a transaction that fails if another writer was active meanwhile. Two transactions
// are needed because in a cluster no transaction covers both keys. If a process dies in between, the log has
// a change that was never made; the next change finds that the settings are unchanged and records this in the
// log. So no confirmed setting is lost, no change by a Store is missing in the log, and a change by other
// means (redis-cli) is detected and logged as [Nobody]'s before the next one.
type Store struct {
	redis  redis.UniversalClient
	routes []string
}

// NewStore returns a store. routes are the routes that may have settings of their own; nil is any.
func NewStore(client redis.UniversalClient, routes []string) *Store {
	return &Store{redis: client, routes: routes}
}

// Edit is a change of settings with its author and its reason.
type Edit struct {
	Who, Why string
	Force    bool // also unknown names and routes
	DryRun   bool // only report what would change

	acceptedLoss *dataLoss // accept this loss instead of changing the hash
}

// Result is the result of an edit.
type Result struct {
	Version int64    // of the settings afterwards; 0: nothing was written
	Changes []Change // empty: the settings already had these values
	Found   []Change // made without the log before this edit, and logged with it
	Notes   []string // what the operator should know about the new settings
}

// RefusedError lists the problems of an edit, one line for each field. Nothing was changed.
type RefusedError struct{ Problems []string }

// Error returns all lines.
func (e *RefusedError) Error() string { return strings.Join(e.Problems, "\n") }

var (
	// errRaced: another writer was active. The edit is repeated.
	errRaced = errors.New("the settings or their log were changed by somebody else again and again; try again")
	// errPending: the newest change in the log is not in the settings, perhaps not yet.
	errPending = errors.New("another change is under way")
)

const (
	maxRaces    = 32
	pendingWait = 2 * time.Second // longer than any store takes from the log to the settings
	pendingPoll = 100 * time.Millisecond
)

// Set sets and unsets fields, all of them or none. An error that is not a *[RefusedError] comes from Redis.
func (s *Store) Set(ctx context.Context, o Edit, set map[string]string, unset []string) (Result, error) {
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		next := maps.Clone(now)
		for name, value := range set {
			next[name] = value
		}
		var missing []string
		for _, name := range unset {
			if _, ok := next[name]; !ok {
				missing = append(missing, show(name)+": is not set"+near(name, slices.Collect(maps.Keys(now))))
			}
			delete(next, name)
		}
		if len(missing) > 0 {
			return nil, &RefusedError{missing}
		}
		return next, nil
	})
}

// Rollback restores the settings after a version, as a change of its own. Version 0 means no settings. Fields
// that the log cannot store stay.
func (s *Store) Rollback(ctx context.Context, o Edit, version int64) (Result, error) {
	then, err := s.version(ctx, version)
	if err != nil {
		return Result{}, err
	}
	o.Force = true // values that were in force need no check
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		next := maps.Clone(then)
		for name, value := range now {
			if !keeps(name, value) {
				next[name] = value
			}
		}
		return next, nil
	})
}

// errNoLoss refuses to repair settings that were not lost.
var errNoLoss = &RefusedError{[]string{"no replica tells of settings that Redis has lost"}}

// Lost returns the settings that Redis has lost, as the replicas report them: each as it is in force there
// (Old) and as Redis has it (New).
func (s *Store) Lost(ctx context.Context) ([]Change, error) {
	l, err := s.loss(ctx)
	if err != nil || l == nil {
		return nil, err
	}
	r := reader{redis: s.redis, checkSizes: true}
	c, err := r.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("settings: read %s: %w", Key, err)
	}
	return l.pending(c.fields), nil
}

// loss is the published loss, nil if there is none.
func (s *Store) loss(ctx context.Context) (*dataLoss, error) {
	text, err := s.redis.HGet(ctx, LossKey, lossField).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("settings: read %s: %w", LossKey, err)
	}
	return parseLoss(text)
}

// Restore writes the lost settings to Redis, as the replicas have them in force.
func (s *Store) Restore(ctx context.Context, o Edit) (Result, error) {
	l, err := s.loss(ctx)
	if err != nil {
		return Result{}, err
	}
	o.Force = true // values in force need no check
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		lost := l.pending(now)
		if len(lost) == 0 {
			return nil, errNoLoss
		}
		return undo(now, lost), nil
	})
}

// Accept makes the replicas use the settings in Redis. The log records this as a change from what they had in
// force.
func (s *Store) Accept(ctx context.Context, o Edit) (Result, error) {
	l, err := s.loss(ctx)
	if err != nil {
		return Result{}, err
	}
	o.Force, o.acceptedLoss = true, l
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		if len(l.pending(now)) == 0 {
			return nil, errNoLoss
		}
		return now, nil
	})
}

// transform computes the wanted settings from the current ones. It must not modify now.
type transform func(now map[string]string) (next map[string]string, err error)

// change carries out an edit, and repeats it after errRaced.
func (s *Store) change(ctx context.Context, o Edit, e transform) (Result, error) {
	var waited time.Duration
	for races := 0; ; {
		a := attempt{store: s, edit: o, waitedForPending: waited >= pendingWait}
		err := a.run(ctx, e)
		pause := pendingPoll
		switch {
		case errors.Is(err, errPending):
			waited += pause
		case errors.Is(err, errRaced) && races < maxRaces:
			races++
			pause = rand.N(pendingPoll)
		default:
			return a.result, err
		}
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// attempt is one try of an edit.
type attempt struct {
	store            *Store
	edit             Edit
	waitedForPending bool // the wait for a pending change is over

	now, next map[string]string
	logged    []string // ids of the written entries
	result    Result
}

// run reads the settings, logs the change and makes it. The log is read before the settings: if another
// writer logs and makes a change meanwhile, the log's transaction fails, and the change is not mistaken for
// one that bypassed the log.
func (a *attempt) run(ctx context.Context, e transform) error {
	err := a.store.redis.Watch(ctx, func(logTx *redis.Tx) error {
		head, err := newest(ctx, logTx)
		if err != nil {
			return err
		}
		return a.store.redis.Watch(ctx, func(tx *redis.Tx) error {
			if err := a.prepare(ctx, tx, e); err != nil || len(a.result.Changes) == 0 {
				return err
			}
			if err := a.log(ctx, logTx, head); err != nil || a.edit.DryRun {
				return err
			}
			return a.write(ctx, tx)
		}, Key)
	}, LogKey)
	if errors.Is(err, redis.TxFailedErr) {
		return errRaced
	}
	return err
}

// prepare reads the settings, and computes and validates the wanted ones.
func (a *attempt) prepare(ctx context.Context, tx *redis.Tx, e transform) error {
	r := reader{redis: tx, checkSizes: true}
	c, err := r.read(ctx)
	if err != nil {
		return fmt.Errorf("settings: read %s: %w", Key, err)
	}
	if c.tooManyFields {
		return &RefusedError{[]string{fmt.Sprintf("%s has more than %d fields, so replicas read none of them; DEL it, and roll back to the last version of the log", Key, maxFields)}}
	}
	a.now = c.fields
	if a.next, err = e(a.now); err != nil {
		return err
	}
	a.now = undo(a.now, a.edit.acceptedLoss.pending(a.now))
	a.result.Changes = changesOf(a.now, a.next)
	a.result.Notes, err = a.store.validate(a.now, a.next, a.edit.Force)
	return err
}

// log writes the change, and before it one that was found, into the log.
func (a *attempt) log(ctx context.Context, tx *redis.Tx, head Entry) error {
	now := kept(a.now)
	found, err := a.found(head, now)
	if err != nil {
		return err
	}
	entries := make([]Entry, 0, 2)
	if found != nil {
		a.result.Found = found.Changes
		entries = append(entries, *found)
	}
	next := kept(a.next)
	entries = append(entries, Entry{Version: head.Version + int64(len(entries)) + 1, Who: showTo(a.edit.Who, keptWho), Why: showTo(a.edit.Why, keptWhy),
		Changes: changesOf(now, next), after: next})
	if a.edit.DryRun {
		return nil
	}
	ids := make([]*redis.StringCmd, len(entries))
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, e := range entries {
			values, err := e.values()
			if err != nil {
				return err
			}
			ids[i] = p.XAdd(ctx, &redis.XAddArgs{Stream: LogKey, MaxLen: maxEntries, Approx: true, Values: values})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		a.logged = append(a.logged, id.Val())
	}
	a.result.Version = entries[len(entries)-1].Version
	return nil
}

// found is the change by which the settings differ from the log, nil if they do not.
func (a *attempt) found(head Entry, now map[string]string) (*Entry, error) {
	if maps.Equal(head.after, now) {
		return nil, nil
	}
	why := "made past the log"
	switch {
	case head.Version == 0:
		why = "as found when the log began"
	case maps.Equal(head.before(), now) && !a.waitedForPending && !a.edit.DryRun:
		return nil, errPending
	case maps.Equal(head.before(), now):
		why = fmt.Sprintf("version %d never took effect, or was undone past the log", head.Version)
	}
	return &Entry{Version: head.Version + 1, Who: Nobody, Why: why, Changes: changesOf(head.after, now), after: now}, nil
}

// write makes the logged change, or removes it from the log.
func (a *attempt) write(ctx context.Context, tx *redis.Tx) error {
	_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if a.edit.acceptedLoss != nil {
			p.HSet(ctx, MarkerKey, markerID, acceptedPrefix+crand.Text(), markerChanges, "0")
			return nil
		}
		for _, c := range a.result.Changes {
			if c.New == nil {
				p.HDel(ctx, Key, c.Name)
			} else {
				p.HSet(ctx, Key, c.Name, *c.New)
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if !script.Answered(err) {
		return a.lookBack(ctx, err)
	}
	a.result.Version = 0
	a.unlog(ctx)
	if errors.Is(err, redis.TxFailedErr) {
		return err
	}
	return fmt.Errorf("settings: write %s: %w; nothing was changed", Key, err)
}

// lookBack finds out whether a change was made whose answer did not arrive.
func (a *attempt) lookBack(ctx context.Context, cause error) error {
	if a.edit.acceptedLoss != nil {
		return fmt.Errorf("settings: write %s: %w; whether the loss was accepted is not known: try again", MarkerKey, cause)
	}
	r := reader{redis: a.store.redis, checkSizes: true}
	c, err := r.read(ctx)
	done, undone := 0, 0 // others may have changed other fields since
	for _, change := range a.result.Changes {
		if is(c.fields, change.Name, change.New) {
			done++
		}
		if is(c.fields, change.Name, change.Old) {
			undone++
		}
	}
	switch all := len(a.result.Changes); {
	case err == nil && !c.tooManyFields && done == all:
		return nil
	case err != nil || c.tooManyFields || undone < all:
		return fmt.Errorf("settings: write %s: %w; whether the change was made is not known: look with foregate settings list", Key, cause)
	}
	a.result.Version = 0
	a.unlog(ctx)
	return fmt.Errorf("settings: write %s: %w; nothing was changed", Key, cause)
}

// is reports whether a field has a value; nil means not set.
func is(fields map[string]string, name string, value *string) bool {
	has, ok := fields[name]
	return ok == (value != nil) && (!ok || has == *value)
}

// unlog removes what was logged. If that fails, the next change finds that the entry had no effect.
func (a *attempt) unlog(ctx context.Context) {
	_ = a.store.redis.XDel(ctx, LogKey, a.logged...).Err()
	a.logged = nil
}
