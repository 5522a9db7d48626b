package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/lookup"
)

const (
	// maxLookups bounds the calls of requests in progress to the number of the client's connections.
	maxLookups = 32
	// denyTime is how much longer than the budget of time a request with on_redis_loss: deny waits: a late answer is
	// better than none.
	denyTime = 100 * time.Millisecond

	// refreshInterval is how often a tenant without changes is sent: so reservations stay known for the 30 s of the script, and
	// so does what the others have spent. Of those without a request in progress, it is maxRefreshed.
	refreshInterval = 5 * time.Second
	maxRefreshed    = 2000
	// refillTime is for how long budgets are not decided by Redis' sums after it has lost data: every process has sent its own
	// again by then.
	refillTime = 2500 * time.Millisecond
	flushBatch = 256 // calls in one round trip
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
	tenant          *tenant
	limits, budgets bool   // what it asks for
	charge          charge // to the levels
	unsynced        unsynced
	version, known  int64 // of the windows; 0: they are not told
	begins          [len(periods)]int64
	args            [3]string // numbers, field, windows
}

// newCall makes a call about a tenant with its present state: for a reservation, or else with its corrections. The caller holds the
// lock.
func (l *Ledger) newCall(t *tenant, g *Reservation, replicas int, now time.Time) *call {
	c := &call{tenant: t, known: t.known}
	what, limit, ask := callTell, t.limit, amounts{}
	if l.redis == nil {
		return c
	}
	if g != nil {
		what, limit, c.charge, ask = callAsk, g.request.Limit, g.charge, g.ask
		c.limits, c.budgets = limit.perMinute(), len(g.request.Budgets) > 0
	} else {
		c.charge, t.corrections = t.corrections, charge{}
	}
	w := limit.shared()
	if g == nil || c.limits && !l.asker.Away() { // otherwise Redis is not told
		c.unsynced = t.takeUnsynced(w, l.own(limit, replicas), replicas, now)
	}
	if budgeted, _ := t.budgeted(now); budgeted {
		t.version++
		c.version = t.version
	}
	c.fill(what, w, ask, expiryOf(t, now))
	var most [len(periods)]amounts
	if g != nil {
		for _, b := range g.request.Budgets {
			i := indexOf(b)
			most[i].tokens, most[i].nanos = max(most[i].tokens, b.Tokens), max(most[i].nanos, b.NanoUSD)
		}
	}
	c.window(most)
	return c
}

// fill writes the arguments of a call but for the windows.
func (c *call) fill(what int, w rates, ask amounts, keep time.Duration) {
	b := strconv.AppendInt(make([]byte, 0, 256), int64(what), 10)
	for _, f := range [...]float64{w.requests.perMinute, w.requests.slack, w.tokens.perMinute, w.tokens.slack, w.high.perMinute, w.high.slack} {
		b = strconv.AppendFloat(append(b, ' '), f, 'f', -1, 64) // the Lua of the embedded Redis reads no exponents
	}
	b = appendNumbers(b, c.charge.requests, c.charge.tokens, c.charge.high)
	for _, f := range [...]float64{c.unsynced.requests, c.unsynced.tokens, c.unsynced.minRequests, c.unsynced.minTokens} {
		b = strconv.AppendFloat(append(b, ' '), f, 'f', -1, 64)
	}
	c.args[0] = string(appendNumbers(b, c.version, ask.tokens, ask.nanos, keep.Milliseconds()))
}

// window adds the windows of the tenant.
func (c *call) window(most [len(periods)]amounts) {
	numbers, told := []byte(c.args[0]), strconv.AppendInt(nil, c.version, 10)
	for i := range c.tenant.windows {
		w := &c.tenant.windows[i]
		c.begins[i] = w.begin
		numbers, told = appendNumbers(numbers, w.begin, most[i].tokens, most[i].nanos), w.append(told)
	}
	c.args = [3]string{string(numbers), c.tenant.field, string(told)}
}

// send puts the call into a pipeline.
func (c *call) send(ctx context.Context, to redis.Scripter) {
	reserveScript.EvalSha(ctx, to, []string{keyTenant + c.tenant.name}, c.args[0], c.args[1], c.args[2])
}

// answer is a reply of the script.
type answer struct {
	refused          int // 0: not
	demoted          bool
	requests, tokens float64 // levels
	before           int64   // version that Redis had
	others           [len(periods)]part
}

// parse parses the script's reply.
func parse(cmd *redis.Cmd) (a answer, err error) {
	text, err := cmd.Text()
	if err != nil {
		return answer{}, err
	}
	const fixed = 5
	var n [fixed + 4*len(periods)]int64
	words := strings.Fields(text)
	if len(words) != len(n) {
		return answer{}, fmt.Errorf("%w: %.64q", errReply, text)
	}
	for i, word := range words {
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil || n[i] < 0 || n[i] > maxAmount {
			return answer{}, fmt.Errorf("%w: %.64q", errReply, text)
		}
	}
	if n[0] > refusedTokens+2*int64(len(periods)) {
		return answer{}, fmt.Errorf("%w: verdict %d", errReply, n[0])
	}
	a = answer{refused: int(n[0]), demoted: n[1] == 1, requests: float64(n[2]) / 1000, tokens: float64(n[3]) / 1000, before: n[4]}
	for i := range a.others {
		o := n[fixed+4*i:]
		a.others[i] = part{amounts{o[0], o[1]}, amounts{o[2], o[3]}}
	}
	return a, nil
}

// newAsker makes the client for calls that a request waits for.
func (l *Ledger) newAsker() *lookup.Client {
	return lookup.New(lookup.Options{
		Budget: func() time.Duration {
			if l.o.Budget != nil {
				if d := l.o.Budget(); d > 0 {
					return d
				}
			}
			return defaultWait
		},
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
func (l *Ledger) lookup(ctx context.Context, c *call, deny bool) (a answer, result string) {
	late := lookup.Late[answer]{OnLate: func(_ context.Context, a answer) { l.hear(c, a) }}
	if deny {
		late.Extra = denyTime
	}
	a, err := lookup.Do(ctx, l.asker, func(ctx context.Context) (answer, error) { return l.ask(ctx, c) }, late)
	result = l.asker.Result(err)
	if c.limits {
		l.metrics.limits.WithLabelValues(result).Inc()
	}
	if err == nil && !l.hear(c, a) {
		result = resultRefilling
	}
	if c.budgets {
		l.metrics.budgets.WithLabelValues(result).Inc()
	}
	return a, result
}

// ask makes one round trip; two more if Redis does not know the script.
func (l *Ledger) ask(ctx context.Context, c *call) (answer, error) {
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

// Lost says that Redis has lost data. It returns at once: within a quarter of a second [Ledger.Run] and [Ledger.RunUsage] send
// again what this process knows.
func (l *Ledger) Lost() {
	l.lost.Store(true)
	l.usage.republish()
}

// Run tells Redis what requests have used, every 250 ms, and probes an unavailable Redis, until ctx ends. Then it tells
// the rest and waits for calls in progress, at most a second, and returns nil.
func (l *Ledger) Run(ctx context.Context) error {
	l.refreshed = l.now()
	if l.redis == nil {
		<-ctx.Done()
		return nil
	}
	l.load(context.WithoutCancel(ctx))
	l.asker.Run(ctx, lookup.Background{
		Flush: func(flush context.Context) {
			l.refresh()
			if ctx.Err() != nil || !l.asker.Away() { // at the end also if Redis was unavailable of late
				l.flush(flush)
			}
		},
		Probe: func(ctx context.Context) error {
			c := &call{tenant: &tenant{name: strings.TrimPrefix(keyProbe, keyTenant), field: l.process}}
			c.fill(callTell, Limit{RPM: 1}.shared(), amounts{}, expiry)
			c.window([len(periods)]amounts{})
			_, err := l.ask(ctx, c)
			return err
		},
		Back: func(ctx context.Context) {
			l.flush(ctx) // what this replica has counted alone
			l.log.Info().Msg("tenants' limits and budgets are counted over all replicas again")
		},
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.unsent); n > 0 {
		l.log.Warn().Int("tenants", n).Msg("the last state of tenants' limits and budgets could not be sent to Redis")
	}
	return nil
}

// load loads the script. A failure shows at the first request.
func (l *Ledger) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookup.BackgroundTime)
	defer cancel()
	_ = l.scripts.Load(ctx, keyTenant)
}

// refresh has tenants sent: all after a loss of data, and every five seconds those with budgets that are quiet, each time others,
// because the order of a map is random, and all with reservations.
func (l *Ledger) refresh() {
	now, lost := l.now(), l.lost.Swap(false)
	if !lost && now.Sub(l.refreshed) < refreshInterval {
		return
	}
	l.refreshed = now
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost {
		l.doubt = now.Add(refillTime)
		l.log.Warn().Msg("Redis has lost tenants' limits and budgets, or is new: replicas fill it again, and count budgets for themselves until then")
	}
	quiet := 0
	for _, e := range l.tenants.byName {
		t := e.Value.(*tenant)
		budgeted, idle := t.budgeted(now)
		if idle {
			quiet++
		}
		switch {
		case lost:
			t.alone = t.limit.perMinute()
			l.send(t)
		case budgeted && (!idle || quiet <= maxRefreshed):
			l.send(t)
		}
	}
}

// flush tells Redis what it may not know.
func (l *Ledger) flush(ctx context.Context) {
	l.mu.Lock()
	list := make([]*tenant, 0, len(l.unsent))
	for t := range l.unsent {
		list = append(list, t)
	}
	l.mu.Unlock()
	for len(list) > 0 {
		n := min(len(list), flushBatch)
		if !l.tell(ctx, list[:n]) {
			return
		}
		list = list[n:]
	}
}

// tell makes one round trip; two more if Redis does not know the script. It reports whether Redis has answered. Windows that
// failed are told again; corrections of levels are not, because they may have been counted: what is charged too much drains
// away.
func (l *Ledger) tell(ctx context.Context, list []*tenant) bool {
	replicas, now, pipe := l.replicas(), l.now(), l.scripts.Pipeline()
	calls := make([]*call, 0, len(list))
	l.mu.Lock()
	for _, t := range list {
		delete(l.unsent, t) // from here on, every change is told anew
		c := l.newCall(t, nil, replicas, now)
		calls = append(calls, c)
		c.send(ctx, pipe)
	}
	l.mu.Unlock()
	cmds := pipe.Cmds()
	answered := l.scripts.Exec(ctx, pipe, lookup.BackgroundTime) == nil
	for i, c := range calls {
		if answered {
			if a, err := parse(cmds[i].(*redis.Cmd)); err == nil {
				l.hear(c, a)
				continue
			}
		}
		l.mu.Lock()
		if c.charge != (charge{}) {
			l.metrics.dropped.Inc()
		}
		c.tenant.alone = c.tenant.alone || c.unsynced != unsynced{}
		if c.version > 0 {
			l.send(c.tenant)
		}
		l.mu.Unlock()
	}
	return answered
}
