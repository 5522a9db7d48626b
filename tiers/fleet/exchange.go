package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// deadline bounds a round trip of any size.
const deadline = 250 * time.Millisecond

// call is one command of a round trip.
type call struct {
	cmd     redis.Cmder
	receive func() // processes the reply, or the error in it
}

// queue adds a script to a pipeline. Its reply is Redis' ms, an error text, and a list. Replies of another
// form, and errors that Redis answers, go to refused.
func queue(pipe redis.Pipeliner, s *script.Script, key string, args []any, got func(now int64, wrong string, values []any), refused func(error)) call {
	cmd := s.EvalSha(context.Background(), pipe, []string{key}, args...) // the round trip has the deadline
	return call{cmd, func() {
		now, wrong, values, err := shape(cmd)
		if err == nil {
			got(now, wrong, values)
		} else {
			refused(s.Explain(err))
		}
	}}
}

// shape parses a script's reply.
func shape(cmd *redis.Cmd) (now int64, wrong string, values []any, err error) {
	if cmd.Err() != nil {
		return 0, "", nil, cmd.Err()
	}
	reply, ok := cmd.Val().([]any)
	if !ok || len(reply) != 3 {
		return 0, "", nil, errors.New("a script's reply has another shape")
	}
	now, ok = reply[0].(int64)
	wrong, ok2 := reply[1].(string)
	values, ok3 := reply[2].([]any)
	if !ok || !ok2 || !ok3 {
		return 0, "", nil, errors.New("a script's reply has other types")
	}
	return now, wrong, values, nil
}

// pairs iterates over fields and values.
func pairs(values []any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i+1 < len(values); i += 2 {
			id, ok := values[i].(string)
			value, ok2 := values[i+1].(string)
			if ok && ok2 && !yield(id, value) {
				return
			}
		}
	}
}

// entry is an entry of a log.
type entry struct {
	id             entryID
	by, placements string
}

// entriesOf parses the reply of either command that reads a log, the oldest entry first. Missing fields are
// empty, which means no placements.
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
		placements, _ := m.Values["said"].(string)
		entries = append(entries, entry{id, by, placements})
	}
	return entries, nil
}

// exchange sends a pipeline in one round trip, as [script.Runner.Exec] does.
func (f *Fleet) exchange(ctx context.Context, pipe redis.Pipeliner) error {
	return f.scripts.Exec(ctx, pipe, deadline)
}
