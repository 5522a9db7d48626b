package settings

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// page is the number of log entries per read.
const page = 50

// Read returns the hash without values that are too long. If it has too many fields, the snapshot says so.
func (s *Store) Read(ctx context.Context) (*Snapshot, error) {
	c, err := readHash(ctx, s.redis)
	if err != nil {
		return nil, err
	}
	if c.tooManyFields {
		none, _ := FromHash(nil, nil, nil)
		return none.overfull(), nil
	}
	routes := s.routes
	if routes == nil {
		routes = routesOf(c.fields)
	}
	snapshot, _ := FromHash(c.fields, routes, nil)
	return snapshot, nil
}

// History calls yield with the entries of the log, the newest first, until it returns false. Invalid entries
// are skipped.
func (s *Store) History(ctx context.Context, yield func(Entry) bool) error {
	return walk(ctx, s.redis, yield)
}

// walk is History on any connection.
func walk(ctx context.Context, c redis.Cmdable, yield func(Entry) bool) error {
	last := "+"
	for seen := 0; seen < 2*maxEntries; { // MAXLEN ~ keeps some more
		messages, err := c.XRevRangeN(ctx, LogKey, last, "-", page).Result()
		if err != nil {
			return fmt.Errorf("settings: read %s: %w", LogKey, err)
		}
		for _, m := range messages {
			e, err := parseEntry(m)
			if err != nil {
				continue
			}
			if !yield(e) {
				return nil
			}
		}
		if len(messages) < page {
			return nil
		}
		seen += page
		last = "(" + messages[len(messages)-1].ID
	}
	return nil
}

// newest is the newest valid entry; the zero Entry if there is none.
func newest(ctx context.Context, c redis.Cmdable) (Entry, error) {
	var head Entry
	err := walk(ctx, c, func(e Entry) bool { head = e; return false })
	return head, err
}

// version is the hash after a version.
func (s *Store) version(ctx context.Context, version int64) (map[string]string, error) {
	if version == 0 {
		return map[string]string{}, nil
	}
	var found *Entry
	var known []int64
	err := s.History(ctx, func(e Entry) bool {
		if e.Version == version {
			found = &e
		}
		known = append(known, e.Version)
		return found == nil
	})
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return found.after, nil
	case len(known) == 0:
		return nil, &RefusedError{[]string{fmt.Sprintf("there is no version %d: the log is empty", version)}}
	}
	return nil, &RefusedError{[]string{fmt.Sprintf("there is no version %d: the log holds %d to %d", version, slices.Min(known), slices.Max(known))}}
}
