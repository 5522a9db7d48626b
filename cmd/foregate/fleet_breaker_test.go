package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

// blackHole is a pool of four whose first backend fails at once, and its breakers.
type blackHole struct {
	*pool.Pool
	*breaker.Set
	asked [4]atomic.Int64
}

func newBlackHole(t *testing.T, policy string) *blackHole {
	t.Helper()
	h := &blackHole{Set: breaker.New(breaker.Options{Classify: outcome})}
	cfg := choose.DefaultConfig()
	cfg.Policy = policy
	var urls, ids []string
	for i := range h.asked {
		ids, urls = append(ids, fmt.Sprint("b", i)), append(urls, fmt.Sprint("http://b", i))
	}
	var err error
	h.Pool, err = pool.New(pool.Options{
		Name: "only", Model: "m", Backends: urls, Config: func() choose.Config { return cfg },
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
	if errors.Is(err, machine.ErrOpen) {
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
	for _, policy := range []string{choose.PolicyFit, choose.PolicyLeastRequests} {
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

// failing is a backend that can take to answering 500 to everything but its health, and
// counts who asks.
type failing struct {
	*vllmsim.Server
	url    string
	fails  atomic.Bool
	chats  atomic.Int64 // requests of clients while it failed
	probes atomic.Int64 // completions, which clients do not ask for here
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	s := &failing{Server: vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed})}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// ServeHTTP answers, or fails.
func (s *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/completions" {
		s.probes.Add(1)
	}
	if !s.fails.Load() || r.Method != http.MethodPost {
		s.Server.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == chat {
		s.chats.Add(1)
	}
	http.Error(w, `{"error":{"message":"broken","type":"InternalServerError","code":500}}`, http.StatusInternalServerError)
}

func TestABackendThatAnswersErrorsIsLeftByAllReplicasAndComesBackByProbesAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	bad := newFailing(t)
	w := &fleetWorld{}
	urls := []string{bad.url}
	for range 3 {
		s := vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed})
		w.sims, urls = append(w.sims, s), append(urls, s.URL())
	}
	w.start(t, "backends: ["+strings.Join(urls, ", ")+"]")
	w.settled(t)
	id := strings.NewReplacer("http://", "", ":", "-").Replace(bad.url)
	in := func(state int) func() bool {
		return func() bool {
			return w.all(func(p *process) bool {
				return strings.Contains(grep(p.metrics(t), `foregate_breaker_state{backend="`), fmt.Sprintf("backend=%q,pool=\"only\"} %d\n", id, state))
			})
		}
	}
	eventually(t, "it is known to all", in(0))
	probed := bad.probes.Load()
	bad.fails.Store(true)
	began := time.Now()
	l := startTraffic(t, 24, w.replicas...)
	eventually(t, "it is open on every replica", in(2))
	t.Logf("open on every replica after %v, %d requests failed", time.Since(began), bad.chats.Load())
	reached := bad.chats.Load()
	// After 2 s and after 4 s more; the first may be over before all have heard that it is open.
	eventually(t, "it is probed", func() bool { return bad.probes.Load() > probed+1 })
	if n := bad.chats.Load() - reached; n > 24 { // those that were under way
		t.Errorf("%d requests were used to test it", n)
	}
	bad.fails.Store(false)
	within(t, 40*time.Second, "it is closed on every replica", in(0))
	before := bad.State().Requests[chat]
	eventually(t, "it serves again", func() bool { return bad.State().Requests[chat] > before+3 })
	l.faultless(t)
}

func TestAProbeSaysWhatAFailureMeans(t *testing.T) {
	for code, want := range map[int]machine.Outcome{
		http.StatusOK: machine.Success, http.StatusBadRequest: machine.Success,
		http.StatusTooManyRequests: machine.Backpressure, http.StatusInternalServerError: machine.Fault,
		http.StatusServiceUnavailable: machine.Fault,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				w.WriteHeader(code)
			case code == http.StatusOK:
				w.WriteHeader(http.StatusNotFound) // it tells nothing of its health
			}
		}))
		r, id := probing(t, srv.URL)
		if got := outcome(r.probe(t.Context(), "only", id)); got != want {
			t.Errorf("status %d is a %v, want %v", code, got, want)
		}
		srv.Close()
		if got := outcome(r.probe(t.Context(), "only", id)); got != machine.Unreachable {
			t.Errorf("a closed port is a %v", got)
		}
		if got := outcome(r.probe(t.Context(), "only", "nobody")); got == machine.Success {
			t.Error("who is not there is well")
		}
	}
}

// probing is a replica with one backend.
func probing(t *testing.T, url string) (r *replica, id string) {
	t.Helper()
	p, err := pool.New(pool.Options{Name: "only", Model: "m", Backends: []string{url}, Pressure: pressure.DefaultConfig})
	if err != nil {
		t.Fatal(err)
	}
	return &replica{pools: map[string]*pool.Pool{"only": p}}, p.Snapshot()[0].ID
}
