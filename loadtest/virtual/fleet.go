package virtual

import (
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// fleetOf is the fleet as one replica sees it. What it tells the others goes through Redis: it waits for the
// sender's next exchange and then for the receiver's.
type fleetOf struct{ from *replica }

// Replicas is how many replicas there are.
func (f fleetOf) Replicas() int { return len(f.from.lab.replicas) }

// Mine deals the backends out among the replicas.
func (f fleetOf) Mine(string, string) bool { return true } // nobody asks: watch deals them out

// Sharing is so while Redis is there.
func (f fleetOf) Sharing() bool { return f.from.lab.redis.Sharing() }

// Publish is done by watch.
func (f fleetOf) Publish(string, string, pressure.Reading) {}

// Place tells the others where prompts went.
func (f fleetOf) Place(name string, placements []prefix.Placement) {
	l := f.from.lab
	placements = slices.Clone(placements)
	for _, r := range l.replicas {
		if r != f.from {
			f.from.tell(func() { r.pools[name].ReceivePlacements(placements) })
		}
	}
}

// tell has another replica hear something. Without Redis nobody does.
func (r *replica) tell(hear func()) {
	l := r.lab
	if l.redis.Away() {
		return
	}
	l.clock.After(r.exchange(), func() {
		if !l.redis.Away() {
			hear()
		}
	})
}

// exchange is how long something told takes to be heard: two exchanges with Redis, each
// at a phase of its own.
func (r *replica) exchange() time.Duration {
	interval := r.lab.values.ScrapeInterval / 2
	return time.Duration(float64(interval) * (r.random() + r.random()))
}

// watch begins to read the metrics of the backends, each at a phase of its own. One
// replica reads a backend for all; the others read it themselves while they hear
// nothing of it.
func (r *replica) watch() {
	for _, name := range poolNames {
		p := r.pools[name]
		if p == nil {
			continue
		}
		for i, s := range p.Snapshot() {
			w := &watcher{replica: r, pool: p, name: name, id: s.ID, backend: r.lab.fleet.Backend(s.URL), mine: i%len(r.lab.replicas) == r.index}
			r.watchers[name+"/"+s.ID] = w
			r.lab.clock.At(0, w.tick)
		}
	}
}

// watcher reads one backend's metrics for one replica.
type watcher struct {
	replica  *replica
	pool     *pool.Pool
	name, id string
	backend  *engines.Backend
	mine     bool
	vain     time.Time // when it last looked, in vain
}

func (w *watcher) tick() {
	l := w.replica.lab
	interval := l.values.ScrapeInterval
	if w.pool.ShouldScrape(w.id, w.mine || l.redis.Local(), w.vain) {
		w.look()
	}
	l.clock.After(time.Duration(float64(interval)*(0.9+0.2*w.replica.random())), w.tick)
}

func (w *watcher) look() {
	l := w.replica.lab
	reading, err := w.backend.Reading()
	if err == nil || errors.Is(err, engines.ErrRefused) {
		w.pool.Observe(w.id, reading, err)
	}
	if err != nil {
		w.vain = l.clock.Now()
		return
	}
	for _, r := range l.replicas {
		if other := r.watchers[w.name+"/"+w.id]; other != w {
			w.replica.tell(func() { other.pool.ReceiveReading(other.id, reading) })
		}
	}
}
