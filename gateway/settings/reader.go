package settings

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// content is the hash as it was read. A value that is longer than maxValue is tooLong.
type content struct {
	fields        map[string]string
	tooManyFields bool // there are more than maxFields; none were kept
}

// reader reads the hash without being hurt by one that somebody filled with megabytes.
// It belongs to one goroutine at a time.
type reader struct {
	redis      redis.Cmdable
	checkSizes bool // the last answer was too large, or HGETALL's did not come in time
}

// read returns the hash. It is one HGETALL, as long as that came in time and was no
// larger than what is kept of it; else the sizes are asked for first, in four round
// trips, and what is too long stays where it is. Where these do not come in time either,
// the next read is an HGETALL again.
func (r *reader) read(ctx context.Context) (content, error) {
	if r.checkSizes {
		c, err := r.measured(ctx)
		if err == nil {
			return c, nil
		}
		if !script.Answered(err) {
			r.checkSizes = false // four round trips may be more than there is time for: the two ways take turns
			return c, err
		}
		// Redis knows or allows only HGETALL.
	}
	h, err := r.redis.HGetAll(ctx, Key).Result()
	if err != nil {
		r.checkSizes = !script.Answered(err) // its size may be why
		return content{}, err
	}
	c := content{fields: h, tooManyFields: len(h) > maxFields}
	r.checkSizes = c.trim() || c.tooManyFields
	return c, nil
}

// measured reads what is not too large.
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
			if text, ok := v.(string); ok { // not one that was deleted meanwhile
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

// tooLong stands for a value that is.
var tooLong = strings.Repeat("?", maxValue+1)

// trim puts tooLong in the place of what is, and reports whether there was any.
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
