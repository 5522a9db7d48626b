package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
)

// blackHole is a pool of four whose first backend fails at once, and its breakers.
type blackHole struct {
	*pool.Pool
	*breaker.Set
	asked [4]atomic.Int64
}

func newBlackHole(t *testing.T, policy string) *blackHole {
	t.Helper()
	h := &blackHole{Set: breaker.New(breaker.Options{Classify: app.Outcome})}
	var urls, ids []string
	for i := range h.asked {
		ids, urls = append(ids, fmt.Sprint("b", i)), append(urls, fmt.Sprint("http://b", i))
	}
	var err error
	h.Pool, err = pool.New(pool.Options{
		Name: "only", Model: "m", Backends: urls, Policy: func() string { return policy },
		Open: func(b string) bool { return h.Open("only", b) }, Ramp: func(b string) float64 { return h.Ramp("only", b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Retain("only", ids)
	return h
}

// ask is one request: it picks, asks the breaker, and lives through what its backend does.
func (h *blackHole) ask(t *testing.T) {
	var l pool.Lease
	if err := h.PickInto(&l, &pool.Demand{PromptTokens: 200, OutputTokens: 20}); err != nil {
		t.Error(err)
		return
	}
	defer l.Done(0)
	permit, err := h.Allow("only", l.Backend())
	if errors.Is(err, breaker.ErrOpen) {
		return
	}
	i := int(l.Backend()[1] - '0')
	h.asked[i].Add(1)
	if i == 0 {
		time.Sleep(time.Millisecond)
		l.ReportFailed()
		permit.Report(&engine.Failure{Kind: engine.ServerError, Status: http.StatusInternalServerError})
		return
	}
	time.Sleep(100 * time.Millisecond)
	l.FirstToken()
	permit.Report(nil)
}

func TestABackendThatFailsFastDrawsNoTraffic(t *testing.T) {
	for _, policy := range []string{choose.PolicyFit, choose.PolicyRoundRobin} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newBlackHole(t, policy)
				const requests = 2000
				var left atomic.Int64
				left.Store(requests)
				var clients sync.WaitGroup
				for range 16 {
					clients.Go(func() {
						for left.Add(-1) >= 0 {
							h.ask(t)
						}
					})
				}
				clients.Wait()
				bad := h.asked[0].Load()
				t.Logf("it got %d of %d requests", bad, requests)
				if bad == 0 || bad >= requests/20 {
					t.Errorf("the backend that fails at once got %d of %d requests", bad, requests)
				}
			})
		})
	}
}
