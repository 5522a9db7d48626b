package evidence

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// spent is what the scripts took at a Redis since its statistics were reset, by call.
func spent(t testing.TB, raw *redis.Client, of string) (calls int, µs float64) {
	t.Helper()
	page, err := raw.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		stats, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"+of+":calls=")
		if !ok {
			continue
		}
		n, rest, _ := strings.Cut(stats, ",")
		calls, _ = strconv.Atoi(n)
		_, each, _ := strings.Cut(rest, "usec_per_call=")
		each, _, _ = strings.Cut(each, ",")
		µs, _ = strconv.ParseFloat(each, 64)
	}
	return calls, µs
}

// aged is a replica whose key has two epochs, a grid, a certificate, and so many audits under way.
func aged(t testing.TB, addr string, under int) *replica {
	r := join(t, addr)
	rule := plain
	rule.MaxWrongRate, rule.ErrorProbability, rule.LeaseAudits = .1, .05, 100000
	r.by(rule)
	r.teach()
	rule.LeaseAudits = 100
	r.by(rule)
	r.audit(80, 0, 1)
	rule.LeaseAudits = 100000
	r.by(rule)
	for i := range under {
		r.open(fmt.Sprint("under-", i), 1)
	}
	if w := r.state(); len(w.Epochs) != 2 || w.Op == 0 {
		t.Fatalf("%d epochs, index %d", len(w.Epochs), w.Op)
	}
	return r
}

func TestAScriptCostsRedisLittle(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	const n = 300
	shown := func(what string, r *replica, do func(i int)) {
		if err := r.raw.ConfigResetStat(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			do(i)
		}
		calls, µs := spent(t, r.raw, "evalsha")
		t.Logf("%s: %.0f µs at Redis", what, µs)
		if calls != n {
			t.Errorf("%s: %d calls of scripts, not %d", what, calls, n)
		}
	}
	r := join(t, s.Addr)
	r.open("first", 0) // loads the scripts
	shown("a score learned", r, func(i int) {
		if i%150 == 0 {
			_ = r.raw.Del(ctx, keyRisk+chat.String())
			r.views.learn(chat, r.state().State, time.Now())
		}
		r.open(fmt.Sprint("l-", i), float64(i))
	})
	_ = r.Reset(ctx, chat)
	r = aged(t, s.Addr, 0)
	shown("opened", r, func(i int) { r.open(fmt.Sprint("o-", i), 1) })
	shown("closed", r, func(i int) { r.close(fmt.Sprint("o-", i), i%20 == 0) })
	shown("closed that is not under way", r, func(i int) { r.close(fmt.Sprint("o-", i), false) })
	fields, _ := r.raw.HLen(ctx, keyRisk+chat.String()).Result()
	bytes, _ := r.raw.MemoryUsage(ctx, keyRisk+chat.String()).Result()
	t.Logf("a key with nothing under way: %d fields, %d bytes", fields, bytes)
	_ = r.Reset(ctx, chat)
	r = aged(t, s.Addr, maxOpen/2)
	shown("opened with 512 and more under way", r, func(i int) { r.open(fmt.Sprint("o-", i), 1) })
	bytes, _ = r.raw.MemoryUsage(ctx, keyRisk+chat.String(), 0).Result()
	log, _ := r.raw.MemoryUsage(ctx, keyLog, 0).Result()
	entries, _ := r.raw.XLen(ctx, keyLog).Result()
	t.Logf("a key with %d under way: %d bytes; the log of %d entries: %d bytes, %d for each", maxOpen/2+n, bytes, entries, log, log/max(entries, 1))
}

// BenchmarkAudit is an audit opened and closed, with the way to Redis and back.
func BenchmarkAudit(b *testing.B) {
	r := aged(b, redistest.Start(b).Addr, 0)
	i := 0
	for b.Loop() {
		i++
		ticket := fmt.Sprint("b-", i)
		r.open(ticket, 1)
		r.close(ticket, false)
	}
	_, µs := spent(b, r.raw, "evalsha")
	b.ReportMetric(µs, "µs-at-redis/script")
}

// BenchmarkView is what a request pays.
func BenchmarkView(b *testing.B) {
	r := aged(b, redistest.Start(b).Addr, 0)
	for b.Loop() {
		r.View(chat)
	}
}

func TestATickIsOneRoundTripOfWhatViewsNeed(t *testing.T) {
	r := aged(t, redistest.Start(t).Addr, 0)
	for i := range 50 {
		k := chat
		k.TrafficClass = fmt.Sprint("b", i)
		r.View(k)
	}
	r.tick(t.Context())
	if err := r.raw.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r.tick(t.Context())
	calls, µs := spent(t, r.raw, "hmget")
	if calls != 51 {
		t.Errorf("%d readings for 51 keys", calls)
	}
	t.Logf("%.1f µs at Redis for each", µs)
}
