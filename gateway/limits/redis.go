package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/internal/redis/lookup"
)

const (
	// maxLookups bounds the questions under way, to as many as the client has connections;
	// what is beyond is counted locally, and told afterwards.
	maxLookups = 32
	// backgroundTime bounds a round trip that nobody waits for.
	backgroundTime = 250 * time.Millisecond
)

// answer is a verdict on one request.
type answer struct {
	refused          Kind // "" when it was let in
	demoted          bool // too much of priority high
	requests, tokens float64
}

// errKey is what is wrong with a tenant's key or the answer; Redis itself is well.
var errKey = errors.New("the key is not a limit's")

// parse reads the script's reply.
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

// How the script is asked.
const (
	howAsk    = "ask"
	howSettle = "settle" // charge, or give back, whatever is owed
)

// amounts are what a request is charged, or below 0 given back.
type amounts struct{ requests, tokens, high int }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.requests + b.requests, a.tokens + b.tokens, a.high + b.high}
}

func (a amounts) negative() amounts { return amounts{-a.requests, -a.tokens, -a.high} }

// refunds are those of the amounts that are given back.
func (a amounts) refunds() amounts {
	return amounts{min(a.requests, 0), min(a.tokens, 0), min(a.high, 0)}
}

// charge is what the script is told to count.
type charge struct {
	amounts
	how string
	unsynced
}

// unsynced is what is owed to a replica that counted for itself: added, and the least that is
// owed then.
type unsynced struct{ requests, tokens, minRequests, minTokens float64 }

// scriptArgs are the script's arguments.
func scriptArgs(w rates, n charge) []any {
	return []any{
		w.requests.perMinute, w.requests.burstSlack, w.tokens.perMinute, w.tokens.burstSlack, w.high.perMinute, w.high.burstSlack,
		n.amounts.requests, n.amounts.tokens, n.high, n.how, maxOwed, expiry.Milliseconds(),
		n.unsynced.requests, n.unsynced.tokens, n.minRequests, n.minTokens,
	}
}

// ask is one round trip; two more where Redis does not know the script.
func (l *Limiter) ask(ctx context.Context, key string, w rates, n charge) (answer, error) {
	reply, err := l.scripts.Run(ctx, limitScript, []string{key}, scriptArgs(w, n)...).Result()
	if err != nil {
		return answer{}, err
	}
	return parse(reply)
}

// newAsker asks Redis for a limiter.
func (l *Limiter) newAsker() *lookup.Client {
	return lookup.New(lookup.Options{
		Budget:   func() time.Duration { return l.budget() },
		Slots:    maxLookups,
		IsAnswer: func(err error) bool { return errors.Is(err, errKey) },
		OnAway: func(err error) {
			l.metrics.shared.Set(0)
			l.log.Warn().Err(err).Int("replicas", l.replicas()).Msg("tenants' limits are counted by this replica for itself: Redis does not answer")
		},
		Now: l.now,
	})
}

// lookup asks Redis without waiting longer than the budget, and says how it went; but for
// shared, this replica must count for itself. tardy hears of an answer that comes after late was returned.
func (l *Limiter) lookup(ctx context.Context, key string, w rates, n charge, tardy func(answer)) (a answer, result string) {
	a, err := lookup.DoOrLeave(ctx, l.asker,
		func(ctx context.Context) (answer, error) { return l.ask(ctx, key, w, n) },
		func(_ context.Context, late answer) { tardy(late) })
	switch {
	case err == nil:
		result = resultShared
	case errors.Is(err, lookup.ErrAway):
		result = resultSkipped
	case errors.Is(err, lookup.ErrBusy):
		result = resultBusy
	case errors.Is(err, lookup.ErrLate):
		result = resultLate
	case errors.Is(err, errKey):
		result = resultWrong
	default:
		result = resultError
	}
	l.metrics.redis.WithLabelValues(result).Inc()
	return a, result
}
