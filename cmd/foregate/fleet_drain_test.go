package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestADrainOnOneReplicaHoldsOnAllAndCutsNoStream(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 4)
	var streams sync.WaitGroup
	const long = 300 // tokens: five seconds
	for i := range 12 {
		streams.Go(func() {
			if _, err := stream(w.replicas[i%3], fmt.Sprintf("Stream number %d is a long one.", i), long); err != nil {
				t.Errorf("long stream %d: %v", i, err)
			}
		})
	}
	var drained *vllmsim.Server
	eventually(t, "long streams run", func() bool {
		for _, s := range w.sims {
			if s.State().Running > 1 {
				drained = s
			}
		}
		return drained != nil
	})
	had := asked(drained)
	l := startTraffic(t, 12, w.replicas...)
	eventually(t, "it gets other requests, too", func() bool { return asked(drained) > had })
	if drained.State().Running < 2 {
		t.Fatal("the long streams have ended before the drain")
	}
	w.order(t, "drain?why=maintenance&backend="+url.QueryEscape(drained.URL()), "", true)
	began := time.Now()
	last, slowest := lastAsked(drained, began, 2500*time.Millisecond, func() { w.replicas[0].sees(t) })
	promised(t, "the last request that the drained backend was sent", last, time.Second, slowest)
	if !w.states(t, drained.URL(), "drained") {
		t.Error("a replica does not say that the backend is drained")
	}
	streams.Wait()
	if st := drained.State(); st.Aborted != 0 {
		t.Errorf("%d streams were cut", st.Aborted)
	}
	w.order(t, "undrain?backend="+url.QueryEscape(drained.URL()), "", true)
	before := asked(drained)
	eventually(t, "it is up again", func() bool { return w.states(t, drained.URL(), "up") })
	eventually(t, "it serves again", func() bool { return asked(drained) > before })

	spot := w.sims[3]
	w.order(t, "spot", fmt.Sprintf(`{"backend":%q,"deadline_seconds":120}`, spot.URL()), true)
	within(t, time.Second+busyMachine, "every replica knows of the spot notice", func() bool {
		return w.all(func(p *process) bool {
			s := p.sees(t)[spot.URL()]
			return s.State == "drained" && s.Why == "spot notice"
		})
	})
	l.faultless(t)

	w.redis.kill()
	alone := w.sims[1]
	w.order(t, "drain?backend="+url.QueryEscape(alone.URL()), "", false)
	if got := w.replicas[0].sees(t)[alone.URL()].State; got != "drained" {
		t.Errorf("the replica that was ordered says that the backend is %s", got)
	}
	if got := w.replicas[0].sees(t)[spot.URL()].State; got != "drained" {
		t.Errorf("without Redis the machine with the spot notice is %s", got)
	}
	for i, p := range w.replicas[1:] {
		if got := p.sees(t)[alone.URL()].State; got != "up" {
			t.Errorf("replica %d, which could not be told, says that the backend is %s", i+1, got)
		}
	}
}

// order gives an order to the first replica and checks whether it says that the others
// know.
func (w *fleetWorld) order(t *testing.T, what, body string, shared bool) {
	t.Helper()
	status, _, answer := send(t, http.MethodPost, w.replicas[0].admin+"/admin/"+what, body)
	if status != http.StatusOK || !strings.Contains(answer, fmt.Sprintf(`"shared":%t`, shared)) {
		t.Fatalf("POST /admin/%s: status %d: %s", what, status, answer)
	}
}
