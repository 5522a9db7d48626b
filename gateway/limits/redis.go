package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/internal/redis/lookup"
)

// maxLookups bounds the calls in progress to the number of the client's connections; further requests are counted locally
// and reported afterwards.
const maxLookups = 32

// answer is the decision about one request.
type answer struct {
	refused          Kind // "" when it was let in
	demoted          bool // priority high was used too much
	requests, tokens float64
}

// errKey means that a tenant's key or the answer is invalid; Redis itself works.
var errKey = errors.New("the key is not a limit's")

// parse parses the script's reply.
func parse(reply any) (answer, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 5 {
		return answer{}, fmt.Errorf("%w: the script's reply has another shape", errKey)
	}
	if text, ok := list[0].(string); !ok || text != "" {
		return answer{}, fmt.Errorf("%w: %.64q", errKey, text)
	}
	var n [4]int64
	for i := range n {
		if n[i], ok = list[i+1].(int64); !ok || n[i] < 0 {
			return answer{}, fmt.Errorf("%w: the script's reply has other types", errKey)
		}
	}
	a := answer{demoted: n[1] == 1, requests: float64(n[2]) / 1000, tokens: float64(n[3]) / 1000}
	switch n[0] {
	case 0:
	case 1:
		a.refused = Requests
	case 2:
		a.refused = Tokens
	default:
		return answer{}, fmt.Errorf("%w: verdict %d", errKey, n[0])
	}
	return a, nil
}

// Modes of the script.
const (
	howAsk    = "ask"
	howSettle = "settle" // charge or refund, at any level
)

// amounts are charges; negative ones are refunds.
type amounts struct{ requests, tokens, high int }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.requests + b.requests, a.tokens + b.tokens, a.high + b.high}
}

func (a amounts) negative() amounts { return amounts{-a.requests, -a.tokens, -a.high} }

// charge is what the script must count.
type charge struct {
	amounts
	how string
	unsynced
}

// unsynced is the level of a replica that counted for itself: amounts to add, and then minimum levels.
type unsynced struct{ requests, tokens, minRequests, minTokens float64 }

// scriptArgs returns the script's arguments.
func scriptArgs(w rates, n charge) []any {
	return []any{
		w.requests.perMinute, w.requests.burstSlack, w.tokens.perMinute, w.tokens.burstSlack, w.high.perMinute, w.high.burstSlack,
		n.amounts.requests, n.amounts.tokens, n.high, n.how, maxDebt, expiry.Milliseconds(),
		n.unsynced.requests, n.unsynced.tokens, n.minRequests, n.minTokens,
	}
}

// ask makes one round trip; two more if Redis does not know the script.
func (l *Limiter) ask(ctx context.Context, key string, w rates, n charge) (answer, error) {
	reply, err := l.scripts.Run(ctx, limitScript, []string{key}, scriptArgs(w, n)...).Result()
	if err != nil {
		return answer{}, err
	}
	return parse(reply)
}

// newAsker makes the client for the limiter's calls to Redis.
func (l *Limiter) newAsker() *lookup.Client {
	return lookup.New(lookup.Options{
		Budget:   func() time.Duration { return l.budget() },
		Slots:    maxLookups,
		IsAnswer: func(err error) bool { return errors.Is(err, errKey) },
		OnAway: func(err error) {
			l.log.Warn().Err(err).Int("replicas", l.replicas()).Msg("tenants' limits are counted by this replica for itself: Redis does not answer")
		},
		Now: l.now,
	})
}

// lookup calls Redis, waits at most for the budget, and returns how it ended; unless that is shared, this replica must count
// for itself. What a call has charged that was answered too late drains away.
func (l *Limiter) lookup(ctx context.Context, key string, w rates, n charge) (a answer, result string) {
	a, err := lookup.Do(ctx, l.asker, func(ctx context.Context) (answer, error) { return l.ask(ctx, key, w, n) }, lookup.Late[answer]{})
	result = l.asker.Result(err)
	l.metrics.redis.WithLabelValues(result).Inc()
	return a, result
}
