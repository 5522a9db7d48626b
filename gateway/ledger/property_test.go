package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redistest"
)

// fate repeats calls, has them run without a reply, or loses them. Replies of those that reach Redis are kept for later repeats.
type fate struct {
	random *rand.Rand
	down   bool         // nothing reaches Redis
	whole  bool         // all does
	sent   []*redis.Cmd // some earlier calls of the script
}

func (f *fate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		lost := f.down || !f.whole && f.random.IntN(20) == 0
		if !f.down && (!lost || f.random.IntN(2) == 0) {
			if err := next(ctx, cmd); err != nil {
				return err
			}
			f.sent = append(f.sent, redis.NewCmd(ctx, cmd.Args()...))
		}
		if lost {
			cmd.SetErr(errUnsure)
			return errUnsure
		}
		return nil
	}
}

func (f *fate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if f.down {
			for _, cmd := range cmds {
				cmd.SetErr(errUnsure)
			}
			return errUnsure
		}
		return next(ctx, cmds)
	}
}

// books are three replicas' ledgers at one Redis, driven step by step, with all that was received.
type books struct {
	t        *testing.T
	client   redis.UniversalClient // of the test
	fate     *fate
	random   *rand.Rand
	open     func() redis.UniversalClient
	replicas [3]*Ledger
	flights  [3][]*Reservation
	ask      Request
	budget   int64
	immortal bool             // no replica dies
	used     int64            // by all requests that have ended
	own      [3]int64         // by those of the present process of each replica
	gone     map[string]int64 // what processes that have died had told, by field
	lost     int64            // what Redis has lost of it
	snapshot map[string]string
}

const askedTokens = 20

func (b *books) start(i int) {
	c := b.open()
	c.AddHook(b.fate)
	b.replicas[i], b.flights[i], b.own[i] = New(Options{Redis: c, Replicas: func() int { return 3 }, Budget: func() time.Duration { return 5 * time.Second }}), nil, 0
}

// fields are what Redis has settled, by field.
func (b *books) fields() map[string]int64 {
	b.t.Helper()
	all, err := b.client.HGetAll(b.t.Context(), keyTenant+"acme").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	settled := map[string]int64{}
	for field, value := range all {
		if n, err := decode(value); err == nil && len(n) == 17 {
			settled[field] = n[13]
		}
	}
	return settled
}

// meet has all replicas tell Redis, and hear of each other.
func (b *books) meet() {
	for range 2 {
		for _, l := range b.replicas {
			l.refreshed = time.Time{}
			l.refresh()
			l.flush(b.t.Context())
		}
	}
}

// believe makes it 2.5 s later: Redis' sums are used, and who had left it alone asks it again.
func (b *books) believe() {
	for _, l := range b.replicas {
		l.doubt, l.asker = time.Time{}, l.newAsker()
	}
}

// step does something at random, at any replica or only the given one.
func (b *books) step(only ...int) {
	i := b.random.IntN(len(b.replicas))
	if len(only) > 0 {
		i = only[0]
	}
	switch n := b.random.IntN(100); {
	case n < 50 && len(b.flights[i]) < 8:
		if g, err := b.replicas[i].Reserve(b.t.Context(), b.ask); err == nil {
			b.flights[i] = append(b.flights[i], g)
		}
	case n < 85 && len(b.flights[i]) > 0:
		k := b.random.IntN(len(b.flights[i]))
		tokens := 1 + b.random.IntN(askedTokens)
		b.flights[i][k].Settle(tokens, 0)
		b.flights[i] = slices.Delete(b.flights[i], k, k+1)
		b.used, b.own[i] = b.used+int64(tokens), b.own[i]+int64(tokens)
	case n < 90:
		b.replicas[i].flush(b.t.Context())
	case n < 95 && !b.fate.down && len(b.fate.sent) > 0: // an earlier command comes again, or late
		_ = b.client.Process(b.t.Context(), b.fate.sent[b.random.IntN(len(b.fate.sent))])
	case n < 96:
		_ = b.client.ScriptFlush(b.t.Context()).Err()
	}
}

// fault is one of those of Redis and of replicas.
func (b *books) fault() {
	ctx, key := b.t.Context(), keyTenant+"acme"
	b.meet()
	kind := b.random.IntN(4)
	if b.immortal {
		kind = max(kind, 1)
	}
	switch kind {
	case 0: // a replica dies with its requests; it had told what it settled
		i := b.random.IntN(len(b.replicas))
		for _, t := range b.replicas[i].tenants {
			b.gone[t.field] = b.own[i]
		}
		b.start(i)
	case 1: // Redis is away for a while
		b.fate.down = true
		for range 40 {
			b.step()
		}
		b.fate.down = false
		b.meet()
	case 2: // Redis loses all, or what it had since the snapshot
		old := b.random.IntN(2) == 0 && b.snapshot != nil
		if err := b.client.Del(ctx, key).Err(); err != nil {
			b.t.Fatal(err)
		}
		if old {
			if err := b.client.HSet(ctx, key, b.snapshot).Err(); err != nil {
				b.t.Fatal(err)
			}
		}
		had := b.fields()
		for field := range b.gone { // nobody writes theirs again
			b.lost += b.gone[field] - had[field]
			b.gone[field] = had[field]
		}
		b.fate.sent = nil
		awake := b.random.IntN(len(b.replicas))
		for range 30 { // before it is found
			b.step(awake)
		}
		for _, l := range b.replicas {
			l.Lost()
		}
		b.meet()
	case 3:
		all, err := b.client.HGetAll(ctx, key).Result()
		if err != nil {
			b.t.Fatal(err)
		}
		b.snapshot = all
		if len(all) == 0 {
			b.snapshot = nil
		}
	}
}

// TestNoBudgetIsExceededByMoreThanWasInFlightAndRedisHasTheReceiptsWhateverHappens drives three replicas through kills, repeated, late
// and lost commands, outages, losses of data and old data.
func TestNoBudgetIsExceededByMoreThanWasInFlightAndRedisHasTheReceiptsWhateverHappens(t *testing.T) {
	redistest.EachTopology(t, func(t *testing.T, where connect.Options, _ []*redistest.Server) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { drive(t, where, seed) })
		}
	})
}

func drive(t *testing.T, where connect.Options, seed uint64) {
	b := &books{t: t, random: rand.New(rand.NewPCG(seed, 45)), gone: map[string]int64{}, budget: 6000, immortal: seed%2 == 0}
	b.fate = &fate{random: b.random}
	b.open = func() redis.UniversalClient {
		o := connect.Background(where)
		c := connect.New(o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	b.client = b.open()
	if err := b.client.Del(t.Context(), keyTenant+"acme").Err(); err != nil {
		t.Fatal(err)
	}
	b.ask = Request{Tenant: "acme", Tokens: askedTokens, Budgets: []identity.Budget{tokensPer(b.budget, identity.Month)}}
	for i := range b.replicas {
		b.start(i)
	}
	flying := 0
	for range 40 {
		for range 40 {
			b.step()
			n := 0
			for _, f := range b.flights {
				n += len(f)
			}
			flying = max(flying, n)
		}
		b.fault()
		b.believe()
	}
	if over := b.used - b.lost - b.budget; over > int64(flying)*askedTokens {
		t.Errorf("%d tokens of %d were used, Redis lost %d of the dead, and %d requests were in flight at most", b.used, b.budget, b.lost, flying)
	}
	for i, list := range b.flights {
		for _, g := range list {
			g.Settle(1, 0)
			b.used, b.own[i] = b.used+1, b.own[i]+1
		}
	}
	b.fate.whole = true
	b.believe()
	b.meet()
	b.believe()
	for _, cmd := range b.fate.sent { // all come again
		_ = b.client.Process(t.Context(), cmd)
	}
	want := int64(0)
	for _, n := range b.gone {
		want += n
	}
	for _, n := range b.own {
		want += n
	}
	got := int64(0)
	for _, n := range b.fields() {
		got += n
	}
	if got != want {
		t.Errorf("Redis has %d, want %d: %v, gone %v, own %v", got, want, b.fields(), b.gone, b.own)
	}
	for _, l := range b.replicas {
		if s := l.States(t.Context(), []BudgetQuery{{"acme", b.ask.Budgets}})[0][0]; s.Used != want || !s.Shared {
			t.Errorf("a replica sees %+v, want %d", s, want)
		}
	}
	t.Logf("used %d of %d, lost %d, at most %d in flight", b.used, b.budget, b.lost, flying)
}
