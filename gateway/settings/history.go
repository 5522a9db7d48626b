package settings

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// page is the number of log entries per read.
const page = 50

// tooLong replaces a value that is too long.
var tooLong = strings.Repeat("?", maxValue+1)

// readHash reads the hash. A value of more than maxValue bytes is replaced by tooLong.
func readHash(ctx context.Context, c redis.Cmdable) (map[string]string, error) {
	return shortened(c.HGetAll(ctx, Key).Result())
}

func shortened(fields map[string]string, err error) (map[string]string, error) {
	if err != nil {
		return nil, fmt.Errorf("settings: read %s: %w", Key, err)
	}
	for name, value := range fields {
		if len(value) > maxValue {
			fields[name] = tooLong
		}
	}
	return fields, nil
}

// Read returns the settings as they are in Redis.
func (s *Store) Read(ctx context.Context) (*Snapshot, error) {
	fields, err := readHash(ctx, s.redis)
	if err != nil {
		return nil, err
	}
	snapshot, _ := FromHash(fields, s.routesOf(fields), nil)
	return snapshot, nil
}

// routesOf are the routes that may have settings of their own: if they are not known, those in the hashes' field names.
func (s *Store) routesOf(hashes ...map[string]string) []string {
	if s.routes != nil {
		return s.routes
	}
	var routes []string
	for _, h := range hashes {
		for name := range h {
			_, scope, _ := strings.Cut(name, "@")
			if route, _ := cutScope(scope); route != "" {
				routes = append(routes, route)
			}
		}
	}
	return routes
}

// History calls yield with the entries of the log, the newest first, until it returns false. Invalid entries
// are skipped.
func (s *Store) History(ctx context.Context, yield func(Entry) bool) error {
	last := "+"
	for range 2 * maxEntries / page { // MAXLEN ~ keeps some more
		messages, err := s.redis.XRevRangeN(ctx, LogKey, last, "-", page).Result()
		if err != nil {
			return fmt.Errorf("settings: read %s: %w", LogKey, err)
		}
		for _, m := range messages {
			if e, err := parseEntry(m); err == nil && !yield(e) {
				return nil
			}
		}
		if len(messages) < page {
			return nil
		}
		last = "(" + messages[len(messages)-1].ID
	}
	return nil
}

// newest is the newest valid entry; the zero Entry if there is none.
func (s *Store) newest(ctx context.Context) (head Entry, err error) {
	err = s.History(ctx, func(e Entry) bool { head = e; return false })
	return head, err
}

// version is the hash after a version.
func (s *Store) version(ctx context.Context, version int64) (after map[string]string, err error) {
	if version == 0 {
		return map[string]string{}, nil
	}
	holds := "the log is empty"
	var newest int64
	err = s.History(ctx, func(e Entry) bool {
		if e.Version == version {
			after = e.after
		}
		newest = max(newest, e.Version)
		holds = fmt.Sprintf("the log holds %d to %d", e.Version, newest)
		return after == nil
	})
	if err == nil && after == nil {
		err = &RefusedError{[]string{fmt.Sprintf("there is no version %d: %s", version, holds)}}
	}
	return after, err
}
