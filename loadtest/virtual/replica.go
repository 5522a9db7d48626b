package virtual

import (
	"fmt"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/scoring"
)

// replica is one gateway: real pools and real lines, with the virtual clock.
type replica struct {
	lab      *lab
	index    int
	pools    map[string]*pool.Pool
	backends map[string]*backend // by pool name and backend id, "draft/127.0.0.1-8000"
	watchers map[string]*watcher // as backends
	lines    map[string]*line    // by pool
	drawn    uint64
	book     economy.Book  // of what drafts came to
	scores   *scoring.Gate // bounds of asking the target about them
	thrown   uint64
	views    map[risk.Key]sighting // of what audits have shown
	audits   *auditor
}

func (l *lab) newReplica(index int) (*replica, error) {
	r := &replica{lab: l, index: index, pools: map[string]*pool.Pool{}, backends: map[string]*backend{}, watchers: map[string]*watcher{}, lines: map[string]*line{}, scores: scoring.NewGate()}
	r.views, r.audits = map[risk.Key]sighting{}, &auditor{lab: l, rates: map[risk.Key]*perMinute{}}
	for name, t := range l.tiers {
		var urls []string
		for i := range t.backends {
			urls = append(urls, fmt.Sprintf("http://%s-%d:8000", name, i))
		}
		r.lines[name] = newLine(r, name)
		p, err := pool.New(pool.Options{
			Name: name, Model: t.def.Model, Backends: urls, USDPerHour: t.def.USDPerHour, Now: l.clock.wall,
			Config:   func() choose.Config { return l.values.Pool },
			Pressure: func() pressure.Config { return l.values.Pressure },
			Fleet:    others{r}, OnCapacity: r.lines[name].wake,
		})
		if err != nil {
			return nil, err
		}
		r.pools[name] = p
		for i, s := range p.Snapshot() {
			r.backends[name+"/"+s.ID] = t.backends[i]
		}
	}
	return r, nil
}

// random is uniform in [0, 1), the same in every run.
func (r *replica) random() float64 {
	r.drawn++
	return unit(r.lab.seed, 1<<32+uint64(r.index), r.drawn)
}
