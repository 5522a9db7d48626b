package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/panics"
)

// deadline is that of a round trip, however much is in it.
const deadline = 250 * time.Millisecond

// ask is one command of a tick.
type ask struct {
	send func(context.Context, redis.Pipeliner) redis.Cmder
	got  func(redis.Cmder) // the reply, or the server's refusal

	cmd redis.Cmder
}

func (a *ask) err() error { return a.cmd.Err() }
func (a *ask) heard()     { a.got(a.cmd) }

// script is an ask for a script that answers Redis' ms, what went wrong, and a list. A reply
// of another shape, and a refusal, go to refused.
func script(s lua, key string, args []any, got func(now int64, wrong string, told []any), refused func(error)) ask {
	return ask{
		send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
			return s.EvalSha(ctx, p, []string{key}, args...)
		},
		got: func(cmd redis.Cmder) {
			now, wrong, told, err := shape(cmd)
			if err == nil {
				got(now, wrong, told)
			} else {
				refused(s.explain(err))
			}
		},
	}
}

// shape takes a script's reply apart.
func shape(cmd redis.Cmder) (now int64, wrong string, told []any, err error) {
	if cmd.Err() != nil {
		return 0, "", nil, cmd.Err()
	}
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return 0, "", nil, fmt.Errorf("a %T for a script", cmd)
	}
	reply, ok := c.Val().([]any)
	if !ok || len(reply) != 3 {
		return 0, "", nil, errors.New("a script's reply has another shape")
	}
	now, ok = reply[0].(int64)
	wrong, ok2 := reply[1].(string)
	told, ok3 := reply[2].([]any)
	if !ok || !ok2 || !ok3 {
		return 0, "", nil, errors.New("a script's reply has other types")
	}
	return now, wrong, told, nil
}

// pairs walks over fields and values.
func pairs(told []any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i+1 < len(told); i += 2 {
			id, ok := told[i].(string)
			value, ok2 := told[i+1].(string)
			if ok && ok2 && !yield(id, value) {
				return
			}
		}
	}
}

// entry is one of a log.
type entry struct {
	id       entryID
	by, said string
}

// entriesOf reads either command that reads a log, the oldest entry first. What an entry
// lacks is empty, which is no placements.
func entriesOf(cmd redis.Cmder) ([]entry, error) {
	var got []redis.XMessage
	err := cmd.Err()
	switch c := cmd.(type) {
	case *redis.XStreamSliceCmd:
		if len(c.Val()) > 0 {
			got = c.Val()[0].Messages
		}
	case *redis.XMessageSliceCmd: // newest first
		for i := len(c.Val()) - 1; i >= 0; i-- {
			got = append(got, c.Val()[i])
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	entries := make([]entry, 0, len(got))
	for _, m := range got {
		id, ok := parseID(m.ID)
		if !ok {
			return nil, fmt.Errorf("entry id %.64q", m.ID)
		}
		by, _ := m.Values["by"].(string)
		said, _ := m.Values["said"].(string)
		entries = append(entries, entry{id, by, said})
	}
	return entries, nil
}

// exchange asks in one round trip. Where Redis does not know the scripts (it was restarted,
// or another took over), it loads them and asks again what was not done. An error is one of
// the connection, after which nobody knows what was done; refusals are in the asks.
func (f *Fleet) exchange(ctx context.Context, asks []ask) error {
	all := make([]*ask, len(asks))
	for i := range asks {
		all[i] = &asks[i]
	}
	if err := f.round(ctx, all); err != nil {
		return err
	}
	var again []*ask
	for _, a := range all {
		if redis.HasErrorPrefix(a.err(), "NOSCRIPT") {
			again = append(again, a)
		}
	}
	if len(again) == 0 {
		return nil
	}
	if err := f.load(ctx); err != nil {
		return err
	}
	return f.round(ctx, again)
}

// round is one round trip.
func (f *Fleet) round(ctx context.Context, asks []*ask) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pipe := f.redis.Pipeline()
	for _, a := range asks {
		a.cmd = a.send(ctx, pipe)
	}
	f.metrics.commands.Add(float64(len(asks)))
	_, _ = pipe.Exec(ctx) // the first error of any ask; each has its own
	for _, a := range asks {
		if err := a.err(); err != nil && !refusal(err) {
			return err
		}
	}
	return nil
}

// refusal says whether an error is the server's answer to one command.
func refusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// load gives Redis the scripts. In a cluster that is the node that has the keys, as far as
// one knows, and then every master, because a slot may be on its way to another: nodes that
// hang or refuse are passed over, and who still lacks a script says so again.
func (f *Fleet) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	f.metrics.commands.Add(float64(len(sources)))
	cluster, ok := f.redis.(*redis.ClusterClient)
	if !ok {
		return loadInto(ctx, f.redis)
	}
	if node, err := cluster.MasterForKey(ctx, keyReplicas); err == nil {
		if err := loadInto(ctx, node); err != nil && refusal(err) {
			return err
		}
	}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		defer panics.Recover(ctx) // each is asked by a goroutine of its own
		return loadInto(ctx, node)
	})
	return nil
}

func loadInto(ctx context.Context, node redis.Cmdable) error {
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, source := range sources {
			p.ScriptLoad(ctx, source)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the scripts: %w", err)
	}
	return nil
}

// scriptLine is where Redis says in which line of a script something went wrong.
var scriptLine = regexp.MustCompile(`@user_script:(\d+)`)

// explain adds that line to an error: of a command that an ACL denies to a script, Redis
// tells the client no more than where it stands.
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
	return fmt.Errorf("%w (%s)", err, lines[n-1])
}
