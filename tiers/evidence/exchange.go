package evidence

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

// detached is a context for one exchange.
func (b *Book) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.patience)
}

// refusal says whether an error is the server's answer to one command.
func refusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// call runs a script. Where Redis does not know it (it was restarted, or another took over) all
// are loaded, and it is run once more.
func (b *Book) call(ctx context.Context, s lua, keys []string, args ...any) (any, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	got, err := s.EvalSha(ctx, b.opts.Redis, keys, args...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err = b.load(ctx); err == nil {
			got, err = s.EvalSha(ctx, b.opts.Redis, keys, args...).Result()
		}
	}
	if err != nil {
		return nil, b.failed(s.explain(err))
	}
	return got, nil
}

// failed notes that something could not be done, and says so.
func (b *Book) failed(err error) error {
	if refusal(err) {
		b.health.note(refused, err)
	} else {
		b.health.note(away, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// change runs a script that changes a state, and takes over the view that it replies.
func (b *Book) change(ctx context.Context, s lua, k risk.Key, r risk.Rule, more ...any) (string, error) {
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

// load gives Redis the scripts: in a cluster the node that has the keys.
func (b *Book) load(ctx context.Context) error {
	node := redis.Cmdable(b.opts.Redis)
	if cluster, ok := b.opts.Redis.(*redis.ClusterClient); ok {
		if master, err := cluster.MasterForKey(ctx, keyIndex); err == nil {
			node = master
		}
	}
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range scripts {
			p.ScriptLoad(ctx, s.source)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the scripts: %w", err)
	}
	return nil
}

// pipeline sends commands in one round trip. An error is one of the connection; refusals are in
// the commands.
func (b *Book) pipeline(ctx context.Context, put func(ctx context.Context, p redis.Pipeliner)) error {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	p := b.opts.Redis.Pipeline()
	put(ctx, p)
	cmds, err := p.Exec(ctx)
	if err != nil && !refusal(err) {
		return b.failed(err)
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !refusal(err) {
			return b.failed(err)
		}
	}
	return nil
}

// looked is a state that was read, or why it could not be.
type looked struct {
	whole
	err error
}

// read reads whole states.
func (b *Book) read(ctx context.Context, keys []risk.Key) ([]looked, error) {
	cmds := make([]*redis.SliceCmd, len(keys))
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, k := range keys {
			cmds[i] = p.HMGet(ctx, keyRisk+k.String(), names...)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]looked, len(keys))
	for i := range keys {
		f, err := fieldsOf(names, cmds[i])
		if err == nil {
			out[i].whole, err = wholeOf(f)
		}
		if err != nil {
			out[i].err = errors.Join(err, fmt.Errorf("of %.200s", keys[i]))
		}
	}
	return out, nil
}

// fieldsOf is the reply to a reading of fields.
func fieldsOf(names []string, cmd *redis.SliceCmd) (fields, error) {
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	return named(names, cmd.Val())
}

// scriptLine is where Redis says in which line of a script something went wrong.
var scriptLine = regexp.MustCompile(`@user_script:(\d+)`)

// explain adds that line to an error: of a command that an ACL denies to a script, Redis tells
// the client no more than where it stands.
func (s lua) explain(err error) error {
	m := scriptLine.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	n, _ := strconv.Atoi(m[1])
	lines := strings.Split(s.source, "\n")
	if n < 1 || n > len(lines) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.TrimSpace(lines[n-1]))
}
