package ledger

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

// model is what the script keeps of a tenant, in a few lines of Go: levels, and of each process a version and its parts.
type model struct {
	levels   levels
	versions [3]int64
	parts    [3]part
}

// apply is the script's arithmetic for one call of a process.
func (m *model) apply(process int, c *call, what int, own part, ask cost, most int64, w rates, now time.Time) (a answer) {
	m.levels.add(cost{}, w, now)
	a.before = m.versions[process]
	newer := c.version > a.before
	for i, p := range m.parts {
		if i != process {
			o := &a.others[0]
			o.settled, o.reserved = o.settled.plus(p.settled), o.reserved.plus(p.reserved)
		}
	}
	mine := own
	if !newer {
		mine = m.parts[process]
	}
	n := c.charge
	if what == callAsk {
		r, k := m.levels.now[ofRequests]-w[ofRequests].slack, m.levels.now[ofTokens]-w[ofTokens].slack
		sum := mine.total().plus(a.others[0].total())[ofTokens]
		switch {
		case r > epsilon && r/w[ofRequests].perMinute >= k/w[ofTokens].perMinute:
			a.refused = refusedRequests
		case k > epsilon:
			a.refused = refusedTokens
		case sum > most || sum-ask[ofTokens] >= most:
			a.refused = refusedWindow
		case n[ofHigh] > 0 && m.levels.now[ofHigh] > w[ofHigh].slack+epsilon:
			a.demoted, n[ofHigh] = true, 0
		}
	}
	if a.refused == 0 {
		m.levels.add(n, w, now)
		if newer {
			m.versions[process], m.parts[process] = c.version, own
		}
	}
	a.levels = [numHeard]float64(m.levels.now[:numHeard])
	return a
}

// TestTheScriptCountsAsItsModel calls the script with random requests, settlements, refunds and old versions of three processes.
func TestTheScriptCountsAsItsModel(t *testing.T) {
	m, o := redistest.Embedded(t, redistest.OnRequests)
	o.ReadTimeout, o.WriteTimeout = 10*time.Second, 10*time.Second // which a busy machine keeps
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	random, now := rand.New(rand.NewPCG(1, 45)), time.UnixMicro(1_800_000_000_000_000)
	limit, most := Limit{RPM: 600, TPM: 60_000, HighShare: 0.2}, int64(20_000)
	w := limit.shared()
	var want model
	var last [3]int64
	refused := map[int]int{}
	for range 5000 {
		now = now.Add(time.Duration(random.IntN(60)) * time.Millisecond)
		m.SetTime(now)
		i, what := random.IntN(3), callTell+random.IntN(2)
		tn := &tenant{name: "acme", field: fmt.Sprint("p", i)}
		own, ask := want.parts[i], cost{}
		x := &call{tenant: tn, version: max(0, last[i]+1-int64(random.IntN(3)))}
		last[i] = max(last[i], x.version)
		if what == callAsk {
			x.charge, x.of = cost{1, random.Int64N(400), random.Int64N(2)}, &Request{Budgets: []identity.Budget{tokensPer(most, identity.Hour)}}
			ask = cost{ofTokens: x.charge[ofTokens]}
			own.reserved = own.reserved.plus(ask)
		} else {
			x.charge = cost{-random.Int64N(2), random.Int64N(400) - 300, 0}
			settled := cost{ofTokens: own.reserved[ofTokens] / 2}
			own = part{own.settled.plus(settled), own.reserved.plus(settled.times(-1))}
			if random.IntN(50) == 0 {
				own.settled = cost{} // as a window that has just begun
			}
		}
		begin := int64(1_799_997_600)
		tn.windows[0] = window{begin: begin, end: begin + 3600, own: own}
		x.encode(what, w, now)
		got, err := parse(redis.NewScript(reserveSource).Run(context.Background(), c, []string{keyTenant + "acme"}, x.numbers, tn.field))
		if err != nil {
			t.Fatal(err)
		}
		should := want.apply(i, x, what, own, ask, most, w, now)
		refused[got.refused]++
		if math.Abs(got.levels[0]-should.levels[0]) > 0.01 || math.Abs(got.levels[1]-should.levels[1]) > 0.01 {
			t.Fatalf("levels %v, want %v", got.levels, should.levels)
		}
		got.levels = should.levels
		if got != should {
			t.Fatalf("%s: got %+v, want %+v", x.numbers, got, should)
		}
	}
	if refused[0] < 500 || refused[refusedRequests]+refused[refusedTokens] < 50 || refused[refusedWindow] < 50 {
		t.Errorf("verdicts %v", refused)
	}
}

// FuzzTenant puts garbage into a tenant's key: no request fails but by the key's type, nobody is shut out for longer than a level can
// last, and what a request writes is read again.
func FuzzTenant(f *testing.F) {
	for _, s := range []string{"", "nan", "-inf", "1e400", "-5 -5 -5 -5", "0x7fffffffffffffff", "1 2", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "1e9 1 1 1 1", "\x00\xff"} {
		f.Add(s, s, false)
		f.Add("9000000000000000 1e9 1e9 1e9", s, true)
	}
	m, o := redistest.Embedded(f, redistest.OnRequests)
	o.ReadTimeout, o.WriteTimeout = 10*time.Second, 10*time.Second // which a busy machine keeps
	l := New(Options{Redis: redistest.Client(f, o)})
	key := keyTenant + "acme"
	f.Fuzz(func(t *testing.T, levels, field string, text bool) {
		m.SetTime(time.Now())
		m.FlushAll()
		if text {
			if err := m.Set(key, field); err != nil {
				t.Fatal(err)
			}
		} else {
			m.HSet(key, "levels", levels, "other", field, "folded", field, "own", field)
		}
		tn := &tenant{name: "acme", field: "mine"}
		ask := func(version int64) (answer, error) {
			c := &call{tenant: tn, of: &Request{}, charge: cost{1, 10, 1, 8}, version: version}
			c.encode(callAsk, Limit{RPM: 600, TPM: 60_000, HighShare: 0.2}.shared(), time.Now())
			return l.run(t.Context(), c)
		}
		got, err := ask(1)
		if err != nil && !strings.Contains(err.Error(), errReply.Error()) || (err != nil) != text {
			t.Fatalf("%q %q: %+v, %v", levels, field, got, err)
		}
		if got.levels[ofRequests] > maxLevel*600 || got.levels[ofTokens] > maxLevel*60_000 {
			t.Errorf("%q: %+v", levels, got)
		}
		if text {
			return
		}
		m.SetTime(time.Now().Add(maxLevel*time.Minute + time.Second))
		if got, err = ask(2); err != nil || got.refused != 0 || !strings.Contains(m.HGet(key, "mine"), " 2 0 0 0") {
			t.Errorf("%q %q: after the longest time %+v, %v; it wrote %q", levels, field, got, err, m.HGet(key, "mine"))
		}
	})
}
