package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// settingsKey is where the gateway reads its live settings from.
const settingsKey = "foregate:settings"

// quiet keeps go-redis from writing lines of its own.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(context.Context, string, ...any) {}

// store writes the settings of a case into an empty Redis database. What undoes
// it empties it again: of what a run leaves (settings, cached answers) nothing
// may reach the next one, and nothing of anybody else's may be there.
func store(ctx context.Context, address string, fields map[string]string) (undo func(context.Context) error, err error) {
	redis.SetLogger(quiet{})
	o, err := redis.ParseURL(address)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the URL, which may hold a password
		}
		return nil, fmt.Errorf("--redis: %w; want redis://HOST:6379/DB, rediss://… or unix://PATH?db=DB", err)
	}
	client := redis.NewClient(o)
	done := false
	defer func() {
		if !done {
			_ = client.Close() // only connections are lost
		}
	}()
	n, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", o.Addr, err)
	}
	if n > 0 {
		return nil, fmt.Errorf("redis %s, database %d, holds %d keys: a run needs an empty one of its own, such as /9", o.Addr, o.DB, n)
	}
	if len(fields) > 0 {
		if err := client.HSet(ctx, settingsKey, fields).Err(); err != nil {
			return nil, fmt.Errorf("redis %s: %w", o.Addr, err)
		}
	}
	done = true
	return func(ctx context.Context) error {
		return errors.Join(client.FlushDB(ctx).Err(), client.Close())
	}, nil
}
