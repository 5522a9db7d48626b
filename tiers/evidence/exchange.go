package evidence

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// detached returns the context of one exchange.
func (b *Store) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.patience)
}

// call runs a script.
func (b *Store) call(ctx context.Context, s *script.Script, keys []string, args ...any) (any, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	got, err := b.scripts.Run(ctx, s, keys, args...).Result()
	if err != nil {
		return nil, b.failed(s.Explain(err))
	}
	return got, nil
}

// failed counts a failed operation, and returns its error.
func (b *Store) failed(err error) error {
	if script.Answered(err) {
		b.health.note(refused, err)
	} else {
		b.health.note(away, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// change runs a script that changes a state, and takes over the view in its reply.
func (b *Store) change(ctx context.Context, s *script.Script, k risk.Key, r risk.Rule, more ...any) (string, error) {
	name, err := nameOf(k)
	if err != nil {
		return "", err
	}
	if err := checkRule(r); err != nil {
		return "", err
	}
	asked := b.now()
	args := append([]any{name, exact(r.MaxWrongRate), exact(r.ErrorProbability), r.LeaseAudits, exact(r.DriftRunLength)}, more...)
	got, err := b.call(ctx, s, []string{keyRisk + name, keyIndex, keyLog}, args...)
	if err != nil {
		return "", err
	}
	reply, ok := got.([]any)
	if !ok || len(reply) != 2+len(viewed) {
		return "", b.failed(fmt.Errorf("a script's reply: %w", errNotOurs))
	}
	word, _ := reply[0].(string)
	if wrong, _ := reply[1].(string); wrong != "" {
		b.health.note(troubled, fmt.Errorf("%.200s: %.200s", name, wrong))
	}
	f, err := named(viewed, reply[2:])
	if err != nil {
		return "", b.failed(err)
	}
	seen, err := viewOf(f)
	if err != nil {
		return "", b.failed(err)
	}
	b.views.learn(k, seen, asked)
	return word, nil
}

// pipeline sends commands in one round trip. An error is a connection error; the commands have their own
// errors.
func (b *Store) pipeline(ctx context.Context, put func(ctx context.Context, p redis.Pipeliner)) error {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	p := b.opts.Redis.Pipeline()
	put(ctx, p)
	cmds, err := p.Exec(ctx)
	if err != nil && !script.Answered(err) {
		return b.failed(err)
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !script.Answered(err) {
			return b.failed(err)
		}
	}
	return nil
}

// readResult is a state, or the error of reading it.
type readResult struct {
	fullState
	err error
}

// read reads whole states.
func (b *Store) read(ctx context.Context, keys []risk.Key) ([]readResult, error) {
	cmds := make([]*redis.SliceCmd, len(keys))
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, k := range keys {
			cmds[i] = p.HMGet(ctx, keyRisk+k.String(), names...)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]readResult, len(keys))
	for i := range keys {
		f, err := fieldsOf(names, cmds[i])
		if err == nil {
			out[i].fullState, err = wholeOf(f)
		}
		if err != nil {
			out[i].err = errors.Join(err, fmt.Errorf("of %.200s", keys[i]))
		}
	}
	return out, nil
}

// fieldsOf names the fields of a reply.
func fieldsOf(names []string, cmd *redis.SliceCmd) (fields, error) {
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	return named(names, cmd.Val())
}
