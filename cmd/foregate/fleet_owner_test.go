package main

import (
	"testing"
	"time"
)

func TestEachBackendIsReadByOneReplicaForAllAndByAnotherWhenThatOneDies(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 8)
	t.Run("read by one", func(t *testing.T) { testReadByOne(t, w) })
	t.Run("taken over", func(t *testing.T) { testTakenOver(t, w) })
}

// maxScrapes is how often a backend may be scraped in a while by all replicas
// together: one and a half times as often as one replica alone does.
func maxScrapes(d time.Duration) int { return int(1.5 * 2 * d.Seconds()) }

func testReadByOne(t *testing.T, w *fleetWorld) {
	const span = 3 * time.Second
	_, before := w.count("/metrics")
	most, began := time.Duration(0), time.Now()
	slowest := during(span, func() { most = max(most, oldest(t, w.replicas...)) })
	_, after := w.count("/metrics")
	took := time.Since(began)
	all := 0
	for i := range after {
		n := after[i] - before[i]
		all += n
		if n > maxScrapes(took) || n < int(took.Seconds()) {
			t.Errorf("backend %d was scraped %d times in %v by three replicas", i, n, took)
		}
	}
	t.Logf("each backend was scraped %.2f times a second; they are owned %v", float64(all)/8/took.Seconds(), w.redis.owners(t))
	promised(t, "the oldest reading of any replica", most, fresh, slowest)
}

func testTakenOver(t *testing.T, w *fleetWorld) {
	owned, dying := w.redis.owners(t), 0
	for i, p := range w.replicas {
		if owned[p.replicaID(t)] > owned[w.replicas[dying].replicaID(t)] {
			dying = i
		}
	}
	n := owned[w.replicas[dying].replicaID(t)]
	w.replicas[dying].kill(t)
	died := time.Now()
	w.replicas = append(w.replicas[:dying:dying], w.replicas[dying+1:]...)
	var most, took time.Duration
	slowest := during(3500*time.Millisecond, func() {
		now := time.Now()
		age := oldest(t, w.replicas...)
		most = max(most, age)
		if took == 0 && now.Add(-age).After(died) {
			took = now.Sub(died)
		}
	})
	t.Logf("%d backends are to be taken over", n)
	if took == 0 {
		t.Error("some backend was not taken over")
	}
	promised(t, "all of them were read again", took, fresh, slowest)
	promised(t, "the oldest reading meanwhile", most, fresh, slowest)
	eventually(t, "the survivors know that they are two", func() bool { return w.all(func(p *process) bool { return shares(t, p, 2) }) })
}
