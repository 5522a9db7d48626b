package ledger

import (
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
	tenant         *tenant
	of             *Request // that waits for it; nil for none
	charge         charge   // to the levels
	unsynced       unsynced
	leased         int64 // requests of a lease
	version, known int64 // of the windows; 0: they are not told
	begins         begins
	args           [3]string // numbers, field, windows
}

// newCall makes a call about a tenant with its present state: for a reservation and a lease, or else with its corrections. The
// caller holds the lock.
func (l *Ledger) newCall(t *tenant, g *Reservation, lease int64, replicas int, now time.Time) *call {
	c := &call{tenant: t, leased: lease, known: t.known}
	if l.redis == nil {
		return c
	}
	what, limit, ask := callTell, t.limit, amounts{}
	var most [len(periods)]amounts
	if g != nil {
		what, limit, c.of, c.charge = callAsk, g.request.Limit, &g.request, g.charge.plus(g.charge, int(lease))
		ask = amounts{g.ask.tokens * (1 + lease), g.ask.nanos * (1 + lease)}
		for _, b := range g.request.Budgets {
			m := &most[indexOf(b)]
			m.tokens, m.nanos = max(m.tokens, b.Tokens), max(m.nanos, b.NanoUSD)
		}
	} else {
		t.release()
		c.charge, t.corrections = t.corrections, charge{}
	}
	if g == nil || limit.perMinute() && !l.asker.Away() { // otherwise Redis is not told
		c.unsynced = t.takeUnsynced(limit.shared(), l.own(limit, replicas), replicas, now)
	}
	if budgeted, _ := t.budgeted(now); budgeted {
		t.version++
		c.version = t.version
	}
	c.encode(what, limit.shared(), ask, most, now)
	return c
}

// encode writes the arguments of a call.
func (c *call) encode(what int, w rates, ask amounts, most [len(periods)]amounts, now time.Time) {
	numbers := appendNumbers(nil, what)
	for _, r := range w {
		numbers = appendNumbers(numbers, r.perMinute, r.slack)
	}
	keep := expiry
	numbers = appendNumbers(numbers, c.charge[:]...)
	numbers = appendNumbers(appendNumbers(numbers, c.unsynced.more[:]...), c.unsynced.least[:]...)
	told, windows := appendNumbers(nil, c.version), []byte(nil)
	for i := range c.tenant.windows {
		w := &c.tenant.windows[i]
		if c.begins[i] = w.begin; w.end > 0 {
			keep = max(keep, time.Unix(w.end, 0).Sub(now)+windowExpiry)
		}
		windows = appendNumbers(windows, w.begin, most[i].tokens, most[i].nanos)
		told = appendNumbers(told, w.begin, w.own.settled.tokens, w.own.settled.nanos, w.own.reserved.tokens, w.own.reserved.nanos)
	}
	numbers = appendNumbers(numbers, c.version, ask.tokens, ask.nanos, keep.Milliseconds())
	c.args = [3]string{string(append(numbers, windows...)[1:]), c.tenant.field, string(told[1:])}
}

// appendNumbers appends numbers, each after a space, as the scripts read them: the Lua of the embedded Redis reads no exponents.
func appendNumbers[T int | int64 | float64](b []byte, numbers ...T) []byte {
	for _, n := range numbers {
		b = strconv.AppendFloat(append(b, ' '), float64(n), 'f', -1, 64)
	}
	return b
}

// send puts the call into a pipeline.
func (c *call) send(ctx context.Context, to redis.Scripter) {
	reserveScript.EvalSha(ctx, to, []string{keyTenant + c.tenant.name}, c.args[0], c.args[1], c.args[2])
}

// answer is a reply of the script.
type answer struct {
	refused int // 0: not
	demoted bool
	levels  [numHeard]float64
	before  int64 // version that Redis had
	others  [len(periods)]part
}

// parse parses the script's reply.
func parse(cmd *redis.Cmd) (a answer, err error) {
	text, err := cmd.Text()
	if err != nil {
		return answer{}, err
	}
	const fixed = 5
	n, err := decode(text)
	if err != nil || len(n) != fixed+4*len(periods) || slices.Min(n) < 0 || n[0] > refusedTokens+2*int64(len(periods)) {
		return answer{}, fmt.Errorf("%w: %.64q", errReply, text)
	}
	a = answer{refused: int(n[0]), demoted: n[1] == 1, levels: [numHeard]float64{float64(n[2]) / 1000, float64(n[3]) / 1000}, before: n[4]}
	for i := range a.others {
		o := n[fixed+4*i:]
		a.others[i] = part{amounts{o[0], o[1]}, amounts{o[2], o[3]}}
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
	return parse(l.scripts.Run(ctx, reserveScript, []string{keyTenant + c.tenant.name}, c.args[0], c.args[1], c.args[2]))
}

// hear takes over a reply, and reports whether its sums may be used: not after Redis has lost data. That shows here if it
// has an older version of this process' part than it had confirmed.
func (l *Ledger) hear(c *call, a answer) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := c.tenant
	if c.version == 0 {
		return true
	}
	if a.before < c.known {
		t.doubt = now.Add(refillTime)
		t.known = a.before
		l.send(t)
	}
	if a.refused == 0 {
		t.known = max(t.known, c.version)
	}
	if now.Before(t.doubt) || now.Before(l.doubt) {
		return false
	}
	if c.version < t.heard {
		return true // a newer call was answered before
	}
	t.heard = c.version
	for i := range t.windows {
		if w := &t.windows[i]; w.begin == c.begins[i] {
			w.hear(a.others[i])
		}
	}
	return true
}
