package settings

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// content is the hash as it was read. A value that is longer than maxValue is replaced by tooLong.
type content struct {
	fields        map[string]string
	tooManyFields bool // more than maxFields; none were kept
}

// reader reads the hash with bounded memory, even if someone filled it with megabytes. It belongs to one
// goroutine at a time.
type reader struct {
	redis      redis.Cmdable
	checkSizes bool // the last answer was too large, or HGETALL timed out
}

// read returns the hash. It uses one HGETALL, as long as that was in time and not larger than the limits.
// Otherwise it first reads the sizes, in four round trips, and leaves out what is too long. If that times
// out, too, the next read uses HGETALL again.
func (r *reader) read(ctx context.Context) (content, error) {
	if r.checkSizes {
		c, err := r.measured(ctx)
		if err == nil {
			return c, nil
		}
		if !script.Answered(err) {
			r.checkSizes = false // four round trips may take too long: the two ways alternate
			return c, err
		}
		// Redis knows or allows only HGETALL.
	}
	h, err := r.redis.HGetAll(ctx, Key).Result()
	if err != nil {
		r.checkSizes = !script.Answered(err) // its size may be the reason
		return content{}, err
	}
	c := content{fields: h, tooManyFields: len(h) > maxFields}
	r.checkSizes = c.trim() || c.tooManyFields
	return c, nil
}

// measured reads the values that are not too large.
func (r *reader) measured(ctx context.Context) (content, error) {
	n, err := r.redis.HLen(ctx, Key).Result()
	if err != nil {
		return content{}, err
	}
	if n > maxFields {
		return content{tooManyFields: true}, nil
	}
	names, err := r.redis.HKeys(ctx, Key).Result()
	if err != nil {
		return content{}, err
	}
	long, err := r.long(ctx, names)
	if err != nil {
		return content{}, err
	}
	c := content{fields: map[string]string{}}
	for _, name := range long {
		c.fields[name] = tooLong
	}
	short := slices.DeleteFunc(names, func(name string) bool { return c.fields[name] != "" })
	if len(short) > 0 {
		values, err := r.redis.HMGet(ctx, Key, short...).Result()
		if err != nil {
			return content{}, err
		}
		for i, v := range values {
			if text, ok := v.(string); ok { // not deleted meanwhile
				c.fields[short[i]] = text
			}
		}
	}
	r.checkSizes = c.trim() || len(long) > 0
	return c, nil
}

// long returns those of the named fields that are longer than maxValue.
func (r *reader) long(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	pipe := r.redis.Pipeline()
	sizes := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		sizes[i] = pipe.HStrLen(ctx, Key, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var long []string
	for i, name := range names {
		if sizes[i].Val() > maxValue {
			long = append(long, name)
		}
	}
	return long, nil
}

// tooLong replaces a value that is too long.
var tooLong = strings.Repeat("?", maxValue+1)

// trim replaces values that are too long, and reports whether there were any.
func (c *content) trim() bool {
	if c.tooManyFields {
		c.fields = nil
	}
	found := false
	for name, value := range c.fields {
		if len(value) > maxValue {
			c.fields[name], found = tooLong, true
		}
	}
	return found
}
