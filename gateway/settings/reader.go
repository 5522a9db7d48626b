package settings

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// content is the hash as it was read. A value that is longer than maxValue is replaced by tooLong.
type content struct {
	fields        map[string]string
	tooManyFields bool // more than maxFields; none were kept
}

// tooLong replaces a value that is too long.
var tooLong = strings.Repeat("?", maxValue+1)

// readHash reads the hash.
func readHash(ctx context.Context, c redis.Cmdable) (content, error) {
	return contentOf(c.HGetAll(ctx, Key).Result())
}

// contentOf checks a reply of Redis.
func contentOf(fields map[string]string, err error) (content, error) {
	switch {
	case err != nil:
		return content{}, fmt.Errorf("settings: read %s: %w", Key, err)
	case len(fields) > maxFields:
		return content{tooManyFields: true}, nil
	}
	for name, value := range fields {
		if len(value) > maxValue {
			fields[name] = tooLong
		}
	}
	return content{fields: fields}, nil
}
