package virtual

import (
	"fmt"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

// replica is one gateway: real pools and a real shedder, with the virtual clock.
type replica struct {
	lab      *lab
	index    int
	pools    map[string]*pool.Pool
	backends map[string]*backend // by pool name and backend id, "draft/127.0.0.1-8000"
	watchers map[string]*watcher // as backends
	shedder  admission.Shedder
	drawn    uint64
}

func (l *lab) newReplica(index int) (*replica, error) {
	r := &replica{lab: l, index: index, pools: map[string]*pool.Pool{}, backends: map[string]*backend{}, watchers: map[string]*watcher{}}
	r.shedder = admission.Shedder{Now: l.clock.wall, Rand: r.random}
	for name, t := range l.tiers {
		var urls []string
		for i := range t.backends {
			urls = append(urls, fmt.Sprintf("http://%s-%d:8000", name, i))
		}
		p, err := pool.New(pool.Options{
			Name: name, Model: t.def.Model, Backends: urls, USDPerHour: t.def.USDPerHour, Now: l.clock.wall,
			Config:   func() choose.Config { return l.values.Pool },
			Pressure: func() pressure.Config { return l.values.Pressure },
		})
		if err != nil {
			return nil, err
		}
		p.Join(others{r})
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

// loads are those of the pools that a request so planned could go to.
func (r *replica) loads(plan tiers.Plan) []admission.PoolLoad {
	var out []admission.PoolLoad
	for _, t := range []tiers.Tier{tiers.Draft, tiers.Target} {
		p := r.pools[string(t)]
		if p == nil || !plan.MayUse(t) {
			continue
		}
		l := admission.PoolLoad{Pool: p.Name()}
		for _, b := range p.Snapshot() {
			if !b.Down && !b.Drained && !b.Suspect {
				l.Loads = append(l.Loads, admission.Load{Usage: b.KVUsage, Known: b.HasReading, Waiting: b.Reading.Waiting})
			}
		}
		out = append(out, l)
	}
	return out
}

// admit reports whether the class's pressure lets a request in.
func (r *replica) admit(priority string, plan tiers.Plan) bool {
	class, err := identity.ParsePriority(priority)
	if err != nil {
		class = identity.Normal
	}
	return !r.shedder.Admit(r.lab.values.Admission, route, class, r.loads(plan)).Shed
}
