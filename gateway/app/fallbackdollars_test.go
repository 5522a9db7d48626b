package app_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
)

// What an answer of a [hostedServer] costs in nano-dollars at the prices of [fallbackFile], and the most that a request
// with max_tokens 20 and a short prompt may cost.
const (
	hostedCost  = 15_000_000
	hostedBound = 40_000_000
)

// leavers are replicas with dead pools and one fallback, at one Redis.
type leavers struct {
	replicas []*apptest.Replica
	hosted   *hostedServer
	asked    atomic.Int64
}

func startLeavers(t *testing.T, n int, redis string, usdPerHour float64) *leavers {
	t.Helper()
	c := redistest.Client(t, redistest.Background(redis))
	if err := c.HSet(t.Context(), "foregate:settings", "redis.timeout", "1s").Err(); err != nil { // a busy machine keeps it
		t.Fatal(err)
	}
	w := &leavers{hosted: startHosted(t)}
	fallback := fmt.Sprintf("{pool: hosted, max_usd_per_hour: %g}", usdPerHour)
	for range n {
		w.replicas = append(w.replicas, apptest.Serve(t, fallbackFile(deadURL, w.hosted.URL, fallback, fmt.Sprintf("redis: {url: \"redis://%s\", replicas: %d}\n", redis, n))))
	}
	for _, r := range w.replicas {
		apptest.Eventually(t, "the replicas share", func() bool { return shares(t, r, n) })
	}
	return w
}

// ask sends a chat of acme that nobody sent before, and returns its status.
func (l *leavers) ask(t testing.TB, replica int) int {
	t.Helper()
	body := strings.Replace(chatBody("llama-3", `"max_tokens":20`), `"hi"`, fmt.Sprintf(`"question %d"`, l.asked.Add(1)), 1)
	status, _, _ := apptest.Send(t, http.MethodPost, l.replicas[replica].URL+chat, body, "X-Tenant-ID", "acme")
	return status
}

// spend sends requests to all replicas at once, and returns how many were answered. ok is false if an hour ended meanwhile.
func (l *leavers) spend(t testing.TB, each int) (answered int, ok bool) {
	t.Helper()
	hour := time.Now().UTC().Hour()
	var good atomic.Int64
	var all sync.WaitGroup
	for i := range l.replicas {
		for range 4 {
			all.Go(func() {
				for range each {
					if l.ask(t, i) == http.StatusOK {
						good.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return int(good.Load()), hour == time.Now().UTC().Hour()
}

func TestTheDollarsOfAFallbackHoldOverTwoReplicas(t *testing.T) {
	w := startLeavers(t, 2, redistest.Start(t).Addr, 0.15)
	answered, ok := w.spend(t, 5)
	if !ok {
		t.Skip("the hour ended during the test")
	}
	if spent := answered * hostedCost; spent > 150_000_000 || spent < 150_000_000-hostedBound-hostedCost {
		t.Errorf("%d answers for 0.15 USD", answered)
	}
	if got := len(w.hosted.asked()); got != answered {
		t.Errorf("the outsider was asked %d times, %d answers", got, answered)
	}
	for i, r := range w.replicas {
		views := r.Status(t).Fallbacks
		if len(views) != 1 || views[0].Route != "llama-3" || views[0].Pool != "hosted" || !slices.Equal(views[0].When, []string{"unavailable"}) {
			t.Fatalf("replica %d shows %+v", i, views)
		}
		apptest.Eventually(t, "what the last answer cost is counted", func() bool { // after its client has it
			s := r.Status(t).Fallbacks[0].Spent
			return s.Shared && s.Limit == 0.15 && math.Abs(s.Used-float64(answered*hostedCost)/1e9) < 1e-9
		})
	}
	page := w.replicas[0].Metrics(t) + w.replicas[1].Metrics(t)
	if !strings.Contains(page, `foregate_fallbacks_total{outcome="spent",pool="hosted",route="llama-3"}`) ||
		!strings.Contains(page, `foregate_fallback_unused_total{reason="spent",route="llama-3"}`) || strings.Contains(page, `foregate_budget_refused_total{reason="usd"} 1`) {
		t.Error(apptest.Lines(page, "foregate_fallback"))
	}
}
