package console

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// live asks for the samples after a time, as a page does.
func live(t *testing.T, c *Console, after float64) (all []Sample) {
	t.Helper()
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprintf("/console/live?after=%.3f", after), nil))
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || all == nil || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%v, %v: %s", err, w.Header(), w.Body)
	}
	return all
}

func testConsole() *Console {
	return New(Options{Gatherer: prometheus.NewRegistry(), State: func() ReplicaState { return ReplicaState{Replicas: 2} }})
}

func TestAPageIsToldWhatWasAndThenWhatComes(t *testing.T) {
	c := testConsole()
	began := time.Now().Add(-time.Minute)
	for i := range 3 {
		c.since(began.Add(time.Duration(i)*maxPause), 0)
	}
	all := live(t, c, 0)
	if len(all) != 4 || all[0].Time != unixSeconds(began) || all[3].Time < unixSeconds(began.Add(time.Minute)) || all[3].Replicas != 2 {
		t.Fatalf("samples %+v", all)
	}
	if again := live(t, c, all[3].Time); len(again) != 0 {
		t.Errorf("nothing is new, but it is told of %+v", again)
	}
	if got := live(t, c, all[1].Time); len(got) != 2 || got[0].Time != all[2].Time {
		t.Errorf("after the second of four: %+v", got)
	}
}

func TestSamplesHaveAPauseAndAnEnd(t *testing.T) {
	c, began := testConsole(), time.Now()
	c.took = []time.Duration{time.Second, 20 * time.Millisecond} // so that a sample may be taken every four seconds
	for i := range 1000 {
		all := c.since(began.Add(time.Duration(i)*time.Second), 0)
		c.took = []time.Duration{time.Second, 20 * time.Millisecond}
		if n := len(all); n > 1 && all[n-1].Time-all[n-2].Time < 4 || n > 0 && all[n-1].Time-all[0].Time > kept.Seconds() {
			t.Fatalf("%d samples from %.0f to %.0f", n, all[0].Time, all[n-1].Time)
		}
	}
}
