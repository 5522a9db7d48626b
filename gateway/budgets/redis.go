package budgets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/lookup"
)

const (
	// maxLookups bounds the calls of requests in progress to the number of the client's connections.
	maxLookups = 32
	// denyTime is how much longer than the budget of time a request with on_redis_loss: deny waits: a late answer is
	// better than none.
	denyTime = 100 * time.Millisecond

	// refreshInterval is how often a window without changes is sent: so reservations stay known, and so does what
	// the others have spent.
	refreshInterval = 5 * time.Second
	// staleAfter is how long the reservations of a silent process count.
	staleAfter = 30 * time.Second
	// foldAfter and maxFields: a window with more fields folds those of processes that were silent for so long.
	foldAfter = time.Hour
	maxFields = 64
	// beatInterval is how often a process looks whether Redis has lost data, at least. refillTime is how long the
	// replies are not used after that: every process has sent its windows again by then.
	beatInterval = time.Second
	refillTime   = 2500 * time.Millisecond
)

// errReply means that a key or the reply is invalid; Redis itself works.
var errReply = errors.New("the key is not a budget's")

// call is a call of the script: for some windows, at one version.
type call struct {
	windows  []*window
	versions []int64 // 0: only read
	args     []any
	keys     []string
	asking   bool
}

// newCall begins a call. The caller holds the ledger's lock.
func (l *Ledger) newCall(asking bool) *call {
	how := "tell"
	if asking {
		how = "ask"
	}
	return &call{asking: asking, keys: []string{keyBeats}, args: []any{
		l.beat, refillTime.Milliseconds(), staleAfter.Milliseconds(), foldAfter.Milliseconds(), maxFields, how,
	}}
}

// add adds a window with its present state, which includes ask. The caller holds the ledger's lock.
func (c *call) add(w *window, ask, most amounts, now time.Time) {
	w.version++
	c.windows, c.versions = append(c.windows, w), append(c.versions, w.version)
	c.keys = append(c.keys, w.key)
	c.args = append(c.args, w.field, w.version, w.own.settled.tokens, w.own.settled.nanos, w.own.reserved.tokens, w.own.reserved.nanos,
		ask.tokens, ask.nanos, most.tokens, most.nanos, max(w.end.Sub(now), 0).Milliseconds()+expiry.Milliseconds())
}

// read adds a window that is only read.
func (c *call) read(w *window) {
	c.windows, c.versions = append(c.windows, w), append(c.versions, 0)
	c.keys = append(c.keys, w.key)
	c.args = append(c.args, w.field, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

// answer is a reply of the script.
type answer struct {
	beat      int64
	refilling int64  // when Redis was found to have lost data, if that is not over; else 0
	refused   int    // 0: nothing was refused; else 2·window−1 for tokens, 2·window for dollars; the first window is 1
	others    []part // of each window of the call
}

// parse parses the reply to a call with n windows.
func parse(reply any, n int) (answer, error) {
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return answer{}, fmt.Errorf("%w: the script's reply has another shape", errReply)
	}
	if text, ok := list[0].(string); !ok || text != "" {
		return answer{}, fmt.Errorf("%w: %.64q", errReply, text)
	}
	if len(list) != 4+4*n {
		return answer{}, fmt.Errorf("%w: the script's reply has %d elements", errReply, len(list))
	}
	numbers := make([]int64, len(list))
	for i := 1; i < len(list); i++ {
		if numbers[i], ok = list[i].(int64); !ok || numbers[i] < 0 || numbers[i] > maxAmount+1 {
			return answer{}, fmt.Errorf("%w: the script's reply has other types", errReply)
		}
	}
	a := answer{beat: numbers[1], refilling: numbers[2], refused: int(numbers[3])}
	if a.refused > 2*n {
		return answer{}, fmt.Errorf("%w: verdict %d", errReply, a.refused)
	}
	for rest := numbers[4:]; len(rest) > 0; rest = rest[4:] {
		a.others = append(a.others, part{amounts{rest[0], rest[1]}, amounts{rest[2], rest[3]}})
	}
	return a, nil
}

// ask makes one round trip; two more if Redis does not know the script.
func (l *Ledger) ask(ctx context.Context, c *call) (answer, error) {
	reply, err := l.scripts.Run(ctx, budgetScript, c.keys, c.args...).Result()
	if err != nil {
		return answer{}, err
	}
	return parse(reply, len(c.windows))
}

// newAsker makes the client for calls that a request waits for.
func (l *Ledger) newAsker() *lookup.Client {
	return lookup.New(lookup.Options{
		Budget:   func() time.Duration { return l.budget() },
		Slots:    maxLookups,
		IsAnswer: func(err error) bool { return errors.Is(err, errReply) },
		OnAway: func(err error) {
			l.log.Warn().Err(err).Int("replicas", l.replicas()).
				Msg("tenants' budgets are counted by this replica for itself, or refused where on_redis_loss is deny: Redis does not answer")
		},
		Now: l.now,
	})
}

// lookup calls Redis, waits at most for the budget of time, and returns how it ended; unless that is shared, the answer
// must not be used. A later answer goes to the windows, too.
func (l *Ledger) lookup(ctx context.Context, c *call, deny bool) (a answer, result string) {
	late := lookup.Late[answer]{OnLate: func(_ context.Context, a answer) { l.hear(c, a) }}
	if deny {
		late.Extra = denyTime
	}
	a, err := lookup.Do(ctx, l.asker, func(ctx context.Context) (answer, error) { return l.ask(ctx, c) }, late)
	if result = l.asker.Result(err); err == nil && !l.hear(c, a) {
		result = resultRefilling
	}
	l.metrics.redis.WithLabelValues(result).Inc()
	return a, result
}

// hear takes over a reply, and reports whether it may be used. While replicas fill Redis again after a loss of data it
// may not, and this one sends all of its windows.
func (l *Ledger) hear(c *call, a answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beat = max(l.beat, a.beat)
	if a.refilling != 0 {
		if a.refilling != l.lossSeen {
			l.lossSeen = a.refilling
			l.log.Warn().Msg("Redis has lost tenants' budgets, or is new: replicas fill it again, and count for themselves until then")
			for _, w := range l.windows {
				l.unsent[w] = struct{}{}
			}
		}
		return false
	}
	for i, w := range c.windows {
		if v := c.versions[i]; v > 0 {
			w.reply(v, a.others[i])
		}
	}
	return true
}

// periodsOf are the periods of budgets, each once.
func periodsOf(list []identity.Budget) (all [3]identity.Period, n int) {
	for _, b := range list {
		known := false
		for _, p := range all[:n] {
			known = known || p == b.Per
		}
		if !known && n < len(all) {
			all[n] = b.Per
			n++
		}
	}
	return all, n
}
