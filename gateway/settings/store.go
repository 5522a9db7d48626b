package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/words"
)

// Store changes the settings and reads their history. It is for people and scripts, a few changes a minute:
// every call takes several round trips, and waits as long as its context allows. A change and its entry in the
// log are one transaction, which fails if another writer was active meanwhile; then it is tried again. So no
// confirmed setting is lost, no change by a Store is missing in the log, and a change by other means
// (redis-cli) is detected and logged as [Nobody]'s before the next one.
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

	above int64 // unless 0, it is of settings that Redis lost: its version is above this one, or nothing is written because there is one
}

// Result is the result of an edit.
type Result struct {
	Version int64    `json:"version"` // of the settings afterwards; 0: nothing was written
	Changes []Change `json:"changes"` // empty: the settings already had these values
	Found   []Change `json:"found"`   // made without the log before this edit, and logged with it
	Notes   []string `json:"notes"`   // what the operator should know about the new settings
}

// WithLists is the result with empty lists for missing ones, as JSON has them.
func (r Result) WithLists() Result {
	r.Changes, r.Found, r.Notes = append([]Change{}, r.Changes...), append([]Change{}, r.Found...), append([]string{}, r.Notes...)
	return r
}

// RefusedError lists the problems of an edit, one line for each field. Nothing was changed.
type RefusedError struct{ Problems []string }

// Error returns all lines.
func (e *RefusedError) Error() string { return strings.Join(e.Problems, "\n") }

// IsForbidden reports whether an error is Redis' refusal of this user, such as one who may only read settings.
func IsForbidden(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// errRaced means that other writers were active each time.
var errRaced = errors.New("the settings or their log were changed by somebody else again and again; try again")

const (
	maxRaces = 32                     // tries of an edit
	maxPause = 100 * time.Millisecond // before the next try, at random
)

// Set sets and unsets fields, all of them or none. An error that is not a *[RefusedError] comes from Redis.
func (s *Store) Set(ctx context.Context, o Edit, set map[string]string, unset []string) (Result, error) {
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		next := maps.Clone(now)
		maps.Copy(next, set)
		var missing []string
		for _, name := range unset {
			if _, ok := next[name]; !ok {
				missing = append(missing, show(name)+": is not set")
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
	return s.Replace(ctx, o, then)
}

// Replace makes fields the whole settings: others are unset. Fields that the log cannot store stay.
func (s *Store) Replace(ctx context.Context, o Edit, fields map[string]string) (Result, error) {
	return s.change(ctx, o, func(now map[string]string) (map[string]string, error) {
		next := maps.Clone(fields)
		for name, value := range now {
			if !keeps(name, value) {
				next[name] = value
			}
		}
		return next, nil
	})
}

// change carries out an edit: edit computes the wanted settings from those now, which it must not modify. It tries again if
// another writer was active.
func (s *Store) change(ctx context.Context, o Edit, edit func(now map[string]string) (map[string]string, error)) (result Result, err error) {
	for range maxRaces {
		err := s.redis.Watch(ctx, func(tx *redis.Tx) (err error) {
			result, err = s.try(ctx, tx, o, edit)
			return err
		}, Key, LogKey)
		switch {
		case err == nil:
			return result, nil
		case !errors.Is(err, redis.TxFailedErr):
			return Result{}, err
		}
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("%w: %w", errRaced, ctx.Err())
		case <-time.After(rand.N(maxPause)):
		}
	}
	return Result{}, errRaced
}

// try tries an edit once. The error is [redis.TxFailedErr] if another writer was active.
func (s *Store) try(ctx context.Context, tx *redis.Tx, o Edit, edit func(map[string]string) (map[string]string, error)) (result Result, err error) {
	head, err := s.newest(ctx) // after the WATCH, whatever the connection
	if err != nil {
		return result, err
	}
	now, err := readHash(ctx, tx)
	switch {
	case err != nil:
		return result, err
	case len(now) > maxFields:
		return result, &RefusedError{[]string{fmt.Sprintf("%s has more than %d fields, so replicas read none of them; DEL it, and roll back to the last version of the log", Key, maxFields)}}
	}
	next, err := edit(now)
	if err != nil {
		return result, err
	}
	if o.above > 0 && head.Version > o.above {
		return result, errRepublished
	}
	if result.Changes = changesOf(now, next); len(result.Changes) == 0 {
		return result, nil
	}
	if result.Notes, err = s.validate(now, next, o.Force); err != nil {
		return result, err
	}
	entries := entriesOf(o, head, kept(now), kept(next))
	if len(entries) > 1 {
		result.Found = entries[0].Changes
	}
	if o.DryRun {
		return result, nil
	}
	result.Version = entries[len(entries)-1].Version
	return result, write(ctx, tx, entries, result.Changes)
}

// entriesOf are the entries of a change from now to next, behind the newest one in the log. If that does not say what is now,
// an entry about it comes first.
func entriesOf(o Edit, head Entry, now, next map[string]string) []Entry {
	var entries []Entry
	version := max(head.Version, o.above)
	if !maps.Equal(head.after, now) {
		why := "changed in Redis without an entry in the history"
		if head.Version == 0 {
			why = "as found when the log began"
		}
		version++
		entries = append(entries, Entry{Version: version, Who: Nobody, Why: why, Changes: changesOf(head.after, now), after: now})
	}
	return append(entries, Entry{
		Version: version + 1, Who: words.Clip(o.Who, keptWho), Why: words.Clip(o.Why, keptWhy), Changes: changesOf(now, next), after: next,
	})
}

// write makes a change and logs it, both or nothing.
func write(ctx context.Context, tx *redis.Tx, entries []Entry, changes []Change) error {
	if err := tx.HDel(ctx, Key, "").Err(); calls.Answered(err) { // within the transaction Redis would not say why it refuses
		return fmt.Errorf("settings: write %s: %w; nothing was changed", Key, err)
	}
	_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range entries {
			values, err := e.values()
			if err != nil {
				return err
			}
			p.XAdd(ctx, &redis.XAddArgs{Stream: LogKey, MaxLen: maxEntries, Approx: true, Values: values})
		}
		for _, c := range changes {
			if c.New == nil {
				p.HDel(ctx, Key, c.Name)
			} else {
				p.HSet(ctx, Key, c.Name, *c.New)
			}
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, redis.TxFailedErr):
		return err
	case calls.Answered(err):
		return fmt.Errorf("settings: write %s: %w; nothing was changed", Key, err)
	}
	return fmt.Errorf("settings: write %s: %w; whether the change was made is not known: look with foregate settings log", Key, err)
}
