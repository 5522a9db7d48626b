package ledger

import (
	"bytes"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
)

// All keys have the hash tag {fg} of the replicas' other keys. keyTenant plus a tenant's name is a hash: its levels, and the
// windows of each replica process (reserve.lua). It expires three minutes after its last use, or an hour after the end of
// its windows.
const (
	keyTenant = "foregate:{fg}:ledger1:tenant:"
	keyProbe  = keyTenant + "/probe" // for testing a recovery; no tenant's name has a slash

	expiry       = (maxLevel + 1) * time.Minute // longer than the longest drain
	windowExpiry = time.Hour
)

const (
	// maxLookups bounds the calls of requests in progress to the number of the client's connections.
	maxLookups = 32
	// denyTime is how much longer than the budget of time a request with on_redis_loss: deny waits: a late answer is
	// better than none.
	denyTime = 100 * time.Millisecond
)

var (
	//go:embed reserve.lua
	reserveSource string
	reserveScript = calls.NewScript(reserveSource)
)

// What a call of the script does.
const (
	callRead = iota - 1
	callTell
	callAsk
)

// Why the script refuses.
const (
	refusedRequests = 1
	refusedTokens   = 2
	refusedWindow   = 3 // for tokens of the first window; then nanos, then the next window
)

// errReply means that a key or the reply is invalid; Redis itself works.
var errReply = errors.New("the key is not a tenant's")

// call is a call of the script about a tenant.
type call struct {
	tenant  *tenant
	of      *Request // that waits for it; nil for none
	charge  cost     // to the levels
	in      begins   // of the tenant's windows
	version int64    // of the windows; 0: they are not told
	numbers string
	answer  answer
	err     error // instead of the answer
}

// newCall makes a call about a tenant with its present state: for a reservation, or else with its corrections. The caller holds
// the lock.
func (l *Ledger) newCall(t *tenant, g *Reservation, now time.Time) *call {
	c := &call{tenant: t}
	if l.redis == nil {
		return c
	}
	what, limit := callTell, t.limit
	if g != nil {
		what, limit, c.of, c.charge = callAsk, g.request.Limit, &g.request, g.cost
	} else {
		c.charge, t.corrections = t.corrections, cost{}
	}
	if budgeted, _ := t.budgeted(now); budgeted {
		t.version++
		c.version = t.version
	}
	c.encode(what, limit.shared(), now)
	return c
}

// encode writes the numbers of a call.
func (c *call) encode(what int, w rates, now time.Time) {
	numbers := appendNumbers(nil, what)
	for _, r := range w {
		numbers = appendNumbers(numbers, r.perMinute, r.slack)
	}
	numbers = appendNumbers(numbers, c.charge[:numLevels]...)
	ws, keep, ask, most := &c.tenant.windows, expiry, cost{}, [len(periods)]cost{}
	if c.of != nil {
		ask = c.charge
		for _, b := range c.of.Budgets {
			m := &most[indexOf(b)]
			m[ofTokens], m[ofNanos] = max(m[ofTokens], b.Tokens), max(m[ofNanos], b.NanoUSD)
		}
	}
	for i := range ws {
		if c.in[i] = ws[i].begin; ws[i].end > 0 {
			keep = max(keep, time.Unix(ws[i].end, 0).Sub(now)+windowExpiry)
		}
	}
	numbers = appendNumbers(numbers, c.version, ask[ofTokens], ask[ofNanos], int64(keep.Seconds()))
	for i := range ws {
		own := &ws[i].own
		numbers = appendNumbers(numbers, ws[i].begin/int64(time.Hour/time.Second), most[i][ofTokens], most[i][ofNanos],
			own.settled[ofTokens], own.settled[ofNanos], own.reserved[ofTokens], own.reserved[ofNanos])
	}
	for bytes.HasSuffix(numbers, []byte(" 0")) {
		numbers = numbers[:len(numbers)-2]
	}
	c.numbers = string(numbers[1:])
}

// appendNumbers appends numbers, each after a space, as the scripts read them: the Lua of the embedded Redis reads no exponents.
func appendNumbers[T int | int64 | float64](b []byte, numbers ...T) []byte {
	for _, n := range numbers {
		b = strconv.AppendFloat(append(b, ' '), float64(n), 'f', -1, 64)
	}
	return b
}

// key is of the tenant's hash.
func (c *call) key() []string { return []string{keyTenant + c.tenant.name} }

// answer is a reply of the script.
type answer struct {
	refused int // 0: not
	demoted bool
	levels  [numHeard]float64
	others  [len(periods)]part
}

// parse parses the script's reply.
func parse(cmd *redis.Cmd) (a answer, err error) {
	text, err := cmd.Text()
	if err != nil {
		return answer{}, err
	}
	const fixed, most = 4, 4 + 4*len(periods)
	n, err := decode(text)
	if err != nil || len(n) > most || slices.Min(n) < 0 || n[0] > refusedTokens+2*int64(len(periods)) {
		return answer{}, fmt.Errorf("%w: %.64q", errReply, text)
	}
	n = append(n, make(sums, most-len(n))...)
	a = answer{refused: int(n[0]), demoted: n[1] == 1, levels: [numHeard]float64{float64(n[2]) / 1000, float64(n[3]) / 1000}}
	for i := range a.others {
		o := n[fixed+4*i:]
		a.others[i] = part{cost{ofTokens: o[0], ofNanos: o[1]}, cost{ofTokens: o[2], ofNanos: o[3]}}
	}
	return a, nil
}

// newAsker makes the client for calls that a request waits for.
func (l *Ledger) newAsker() *calls.Client {
	return calls.New(calls.Options{
		Budget:   l.o.Budget,
		Slots:    maxLookups,
		IsAnswer: func(err error) bool { return errors.Is(err, errReply) },
		OnAway: func(err error) {
			l.log.Warn().Err(err).Int("replicas", l.replicas()).
				Msg("tenants' limits and budgets are counted by this replica for itself, or refused where on_redis_loss is deny: Redis does not answer")
		},
		Now: l.now,
	})
}

// lookup calls Redis, waits at most for the budget of time, and returns how it ended; unless that is shared, the answer's
// budgets must not be used, and its limits only if it is refilling. A later answer goes to the windows, too.
func (l *Ledger) lookup(ctx context.Context, c *call) (a answer, result string) {
	late := calls.Late[answer]{OnLate: func(_ context.Context, a answer) { l.hear(c, a) }}
	if c.of.denies() != nil {
		late.Extra = denyTime
	}
	a, err := calls.Do(ctx, l.asker, func(ctx context.Context) (answer, error) { return l.run(ctx, c) }, late)
	result = l.asker.Result(err)
	limits := result
	if err == nil && !l.hear(c, a) {
		result = resultRefilling
	}
	l.metrics.asked(c.of, limits, result)
	return a, result
}

// run makes one round trip; two more if Redis does not know the script.
func (l *Ledger) run(ctx context.Context, c *call) (answer, error) {
	return parse(l.scripts.Run(ctx, reserveScript, c.key(), c.numbers, c.tenant.field))
}

// together makes calls in one round trip. It reports whether Redis has answered.
func (l *Ledger) together(ctx context.Context, list []*call) bool {
	pipe := l.scripts.Pipeline()
	for _, c := range list {
		reserveScript.EvalSha(ctx, pipe, c.key(), c.numbers, c.tenant.field)
	}
	cmds := pipe.Cmds()
	failed := l.scripts.Exec(ctx, pipe, calls.BackgroundTime)
	for i, c := range list {
		if c.err = failed; failed == nil {
			c.answer, c.err = parse(cmds[i].(*redis.Cmd))
		}
	}
	return failed == nil
}

// hear takes over a reply, and reports whether its sums may be used: not after Redis has lost data.
func (l *Ledger) hear(c *call, a answer) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := c.tenant
	if c.version == 0 {
		return true
	}
	if now.Before(l.doubt) {
		return false
	}
	if c.version >= t.heard { // else a newer call was answered before
		t.heard = c.version
		t.windows.hear(c.in, a.others)
	}
	return true
}
