package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// some returns counts with a random number in every column.
func some(r *rand.Rand) (c Counts) {
	all := make(sums, numColumns)
	for i := range all {
		all[i] = r.Int64N(1_000_000)
	}
	c.add(all)
	c.Requests, c.DraftsSaved = 1+r.Int64N(9), -c.DraftsSaved
	return c
}

// unsure makes calls of the script fail: before they reach Redis, or after Redis has answered.
type unsure struct {
	random *rand.Rand
	faulty bool
}

var errUnsure = errors.New("the connection is lost")

func (u *unsure) DialHook(next redis.DialHook) redis.DialHook { return next }
func (u *unsure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if u.faulty && cmd.Name() == "evalsha" && u.random.IntN(2) == 0 {
			if u.random.IntN(2) == 0 {
				_ = next(ctx, cmd)
			}
			cmd.SetErr(errUnsure)
			return errUnsure
		}
		return next(ctx, cmd)
	}
}
func (u *unsure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// world is ledgers that share a Redis, and what they were told.
type world struct {
	t       *testing.T
	client  *redis.Client
	faults  *unsure
	now     time.Time
	ledgers []*Ledger
	want    Counts
	random  *rand.Rand
}

func newWorld(t *testing.T, addr string, ledgers int) *world {
	w := &world{t: t, now: noon, random: rand.New(rand.NewPCG(3, 4))}
	w.faults = &unsure{random: w.random}
	w.client = redistest.Client(t, redistest.Background(addr))
	w.client.AddHook(w.faults)
	for range ledgers {
		w.ledgers = append(w.ledgers, w.ledger())
	}
	return w
}

func (w *world) ledger() *Ledger {
	return New(Options{Redis: w.client, Now: func() time.Time { return w.now }})
}

// work has every ledger count some requests.
func (w *world) work() {
	for _, l := range w.ledgers {
		for range w.random.IntN(20) {
			c := some(w.random)
			l.Add(&Use{Began: w.now.Add(-time.Duration(w.random.IntN(3)) * time.Minute), Tenant: fmt.Sprint("tenant-", w.random.IntN(5)), Route: fmt.Sprint("r|", w.random.IntN(3)), Counts: c})
			w.want.add(c.sums())
		}
	}
}

func (w *world) write(stop bool) {
	for _, l := range w.ledgers {
		open := dayOf(w.now.Add(-closeAfter))
		if stop {
			open = dayOf(w.now) + 1
		}
		l.write(w.t.Context(), open)
	}
}

// equal checks that the total is what the ledgers were told, and that rows add up to it.
func (w *world) equal(when string) {
	w.t.Helper()
	r, err := w.ledgers[0].Read(w.t.Context(), Query{From: noon.AddDate(0, 0, -3), To: noon.AddDate(0, 0, 10), By: []Dimension{ByTenant, ByDay}})
	if err != nil {
		w.t.Fatal(err)
	}
	var rows Counts
	for _, row := range r.Rows {
		rows.add(row.sums())
	}
	if r.Total.Counts != w.want || rows != w.want || r.Damaged > 0 || r.Scope != ScopeFleet {
		w.t.Fatalf("%s: %+v\nrows %+v\nwant %+v\n%d damaged", when, r.Total.Counts, rows, w.want, r.Damaged)
	}
}

func TestUsageIsTheSumOfWhatReplicasCountWhateverRepliesAreLost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		w := newWorld(t, addr, 3)
		for round := range 60 {
			w.faults.faulty = true
			w.work()
			w.write(false)
			w.now = w.now.Add(time.Duration(w.random.IntN(4)) * time.Hour) // days end, and are folded
			w.work()
			w.write(false)
			w.faults.faulty = false
			if round%10 == 9 { // a replica is replaced
				old := w.ledgers[round%3]
				old.write(t.Context(), dayOf(w.now)+1)
				if n := old.pending(); n > 0 || len(old.book.rows) > 0 {
					t.Fatalf("%v requests are left behind", n)
				}
				w.ledgers[round%3] = w.ledger()
			}
			w.write(false)
			w.equal(fmt.Sprint("round ", round))
		}
		w.write(true)
		w.equal("at the end")
		for _, name := range w.client.HKeys(t.Context(), page{pageUsage, dayOf(noon)}.key()).Val() {
			if strings.HasPrefix(name, "o") {
				t.Errorf("%s was not folded", name)
			}
		}
	})
}

func TestUsageIsWholeAfterRedisHasLostItOrCameBackWithOldData(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 3)
		key := page{pageUsage, dayOf(noon)}.key()
		for _, old := range []bool{false, true} {
			w.work()
			w.write(false)
			fields := c.HGetAll(t.Context(), key).Val()
			w.work()
			w.write(false)
			if err := c.Del(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
			if old {
				if err := c.HSet(t.Context(), key, fields).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range w.ledgers {
				l.Lost()
			}
			w.write(false)
			w.equal(fmt.Sprint("with old data ", old))
		}
	})
}

func TestOtherThingsInRedisAreNotCounted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 1)
		w.work()
		w.write(false)
		today := page{pageUsage, dayOf(noon)}
		for field, value := range map[string]string{"r|acme|llama-3": "1 2 x", "r|acme": "1", "o|acme": "1", "z|a|b": "1", "": "1", "r|a|" + strings.Repeat("b", maxName): "1", "r|a|c": strings.Repeat("9", 30), "p|x": "y"} {
			if err := c.HSet(t.Context(), today.key(), field, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Set(t.Context(), page{pageUsage, today.day - 1}.key(), "a string", 0).Err(); err != nil {
			t.Fatal(err)
		}
		r, err := w.ledgers[0].Read(t.Context(), Query{From: noon.AddDate(0, 0, -3), To: noon})
		if err != nil || r.Total.Counts != w.want || r.Damaged != 7 {
			t.Errorf("%+v, want %+v, %v", r, w.want, err)
		}
	})
}

func TestAHashThatIsFullTakesNoMoreAndNothingIsLost(t *testing.T) {
	s := redistest.Start(t)
	w := newWorld(t, s.Addr, 1)
	key := page{pageUsage, dayOf(noon)}.key()
	fields := make([]any, 0, 2*maxFields)
	for i := range maxFields {
		fields = append(fields, fmt.Sprint("p|", i), "1")
	}
	if err := s.Client.HSet(t.Context(), key, fields...).Err(); err != nil {
		t.Fatal(err)
	}
	w.work()
	w.write(false)
	if l := w.ledgers[0]; !l.book.away || l.pending() != float64(w.want.Requests) {
		t.Errorf("%v requests wait", l.pending())
	}
	if err := s.Client.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	w.write(false)
	w.equal("with room")
}

func TestOldDaysAreDeleted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 1)
		var keys []string
		for _, age := range []day{MaxDays - 1, MaxDays, MaxDays + 20} {
			keys = append(keys, page{pageUsage, dayOf(noon) - age}.key())
			if err := c.HSet(t.Context(), keys[len(keys)-1], "r|a|b", "1").Err(); err != nil {
				t.Fatal(err)
			}
		}
		w.work()
		w.write(false)
		if n := c.Exists(t.Context(), keys...).Val(); n != 1 {
			t.Errorf("%d days are left", n)
		}
	})
}

func TestUsageIsWrittenWhileARunAndTheRestAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		r := join(t, o, 1)
		defer func() { _ = r.redis.Close() }()
		r.run(t)
		now := time.Now()
		requests := func() int64 {
			told, err := r.Read(t.Context(), Query{From: now, To: now})
			if err != nil {
				t.Fatal(err)
			}
			return told.Total.Requests
		}
		r.Add(&Use{Began: now, Tenant: "acme", Route: "r", Counts: Counts{Requests: 1}})
		time.Sleep(writeInterval + time.Second)
		if n := requests(); n != 1 {
			t.Errorf("%d requests after one interval", n)
		}
		r.Add(&Use{Began: now, Tenant: "acme", Route: "r", Counts: Counts{Requests: 1}})
		r.stop()
		if n := requests(); n != 2 {
			t.Errorf("%d requests after the end", n)
		}
	})
}

func TestAStopWithASilentRedisEndsAndKeepsWhatIsLost(t *testing.T) {
	l := New(Options{Redis: redistest.Client(t, redistest.Background(redistest.StartFrozen(t)))})
	l.Add(&Use{Began: time.Now(), Tenant: "acme", Route: "r", Counts: Counts{Requests: 3}})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.RunUsage(ctx); err != nil || l.pending() != 3 {
		t.Errorf("%v, %v requests wait", err, l.pending())
	}
	if _, err := l.Read(t.Context(), Query{From: noon, To: noon}); !errors.Is(err, ErrAway) {
		t.Errorf("read from a silent Redis: %v", err)
	}
}

func TestTooManyTenantsShareARowPerRoute(t *testing.T) {
	l := New(Options{})
	for i := range 3 * maxRows {
		l.Add(&Use{Began: noon, Tenant: fmt.Sprint("tenant-", i), Route: fmt.Sprint("route-", i%2), Counts: Counts{Requests: 1}})
	}
	r := reportOf(t, l, "tenant,route")
	if len(r.Rows) != maxRows+2 || r.Total.Requests != 3*maxRows {
		t.Fatalf("%d rows, %d requests", len(r.Rows), r.Total.Requests)
	}
	for _, row := range r.Rows[:2] {
		if row.Tenant != Others || row.Requests != maxRows {
			t.Errorf("%+v", row)
		}
	}
}

func TestAllPagesTogetherAreBoundedAndOldOnesAreForgotten(t *testing.T) {
	r := &New(Options{}).book
	for d := range day(2 * MaxDays) {
		for i := range 100 {
			r.add(page{pageUsage, d}, fmt.Sprint(i), "r", sums{1})
		}
		if len(r.pages) > MaxDays || len(r.rows) > maxHeldRows+MaxDays {
			t.Fatalf("on day %d: %d days, %d rows", d, len(r.pages), len(r.rows))
		}
	}
	n := 0
	for _, rows := range r.pages {
		n += rows
	}
	if n != len(r.rows) {
		t.Errorf("%d rows, counted as %d", len(r.rows), n)
	}
}

// reportOf is the report of a ledger without Redis at noon.
func reportOf(t *testing.T, l *Ledger, by string) *Report {
	t.Helper()
	q := Query{From: noon.AddDate(0, 0, 1-noon.Day()), To: noon}
	for word := range strings.SplitSeq(by, ",") {
		q.By = append(q.By, Dimension(word))
	}
	r, err := l.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRowsAreGroupedAndOrderedAsAsked(t *testing.T) {
	l := New(Options{})
	for i := range 12 {
		l.Add(&Use{Began: noon.AddDate(0, 0, -i%3), Tenant: fmt.Sprint("t", i%2), Route: fmt.Sprint("r", i%4), Counts: Counts{Requests: 1}})
	}
	for by, want := range map[string]string{
		"tenant":       "t0:6 t1:6",
		"day":          "2026-11-21:4 2026-11-22:4 2026-11-23:4",
		"route,tenant": "r0/t0:3 r1/t1:3 r2/t0:3 r3/t1:3",
		"day,tenant":   "2026-11-21/t0:2 2026-11-21/t1:2 2026-11-22/t0:2 2026-11-22/t1:2 2026-11-23/t0:2 2026-11-23/t1:2",
	} {
		r := reportOf(t, l, by)
		var got []string
		for _, row := range r.Rows {
			var names []string
			for _, d := range r.By {
				names = append(names, row.Group(d))
			}
			got = append(got, fmt.Sprintf("%s:%d", strings.Join(names, "/"), row.Requests))
		}
		if text := strings.Join(got, " "); text != want || r.Total.Requests != 12 || r.Scope != ScopeReplica {
			t.Errorf("%s: %s; %d in all, %s", by, text, r.Total.Requests, r.Scope)
		}
	}
}

func TestAReportWithTooManyRowsIsRefused(t *testing.T) {
	l := New(Options{})
	for i := range MaxReportRows/maxRows + 1 {
		for j := range maxRows {
			l.book.rows[rowKey{page{pageUsage, dayOf(noon) - day(i)}, fmt.Sprint(i, " ", j), "r"}] = &row{sums: sums{1}} // as if other replicas had counted them
		}
	}
	if _, err := l.Read(t.Context(), Query{From: noon.AddDate(0, 0, -30), To: noon, By: []Dimension{ByTenant}}); !errors.Is(err, ErrTooManyRows) {
		t.Error(err)
	}
}

func TestAmountsAreExactDecimals(t *testing.T) {
	for n, want := range map[Nanos]string{0: "0", 1: "0.000000001", -1: "-0.000000001", 1_500_000_000: "1.5", -12_000_000_000: "-12", 9007199254740991: "9007199.254740991"} {
		b, err := json.Marshal(n)
		var again Nanos
		if err != nil || string(b) != want || json.Unmarshal(b, &again) != nil || again != n {
			t.Errorf("%d: %s, %v; again %d", int64(n), b, err, int64(again))
		}
	}
	for usd, want := range map[float64]Nanos{0.1: 100_000_000, 1e-10: 0, 6e-10: 1, -0.25: -250_000_000, math.Inf(1): 1e15, math.Inf(-1): -1e15, math.NaN(): 0} {
		if got := NanosOf(usd); got != want {
			t.Errorf("%v: %d, not %d", usd, int64(got), int64(want))
		}
	}
}

func FuzzFieldsOfUsage(f *testing.F) {
	f.Add("r|acme|llama-3", "1 2 3")
	f.Add("o|0123456789abcdef|acme|a|b", "9007199254740991 -1")
	f.Add("p|0123456789abcdef", "7")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, field, value string) {
		readPage(page{pageUsage, 20780}, map[string]string{field: value}, func(key rowKey, n sums) bool {
			if len(key.name)+len(key.route) > maxName {
				t.Errorf("a name of %d bytes", len(key.name)+len(key.route))
			}
			if again, err := decode(n.String()); err != nil || fmt.Sprint(again) != fmt.Sprint(n) {
				t.Errorf("%q: %v is not written as it was read: %v", value, n, err)
			}
			return true
		})
	})
}
