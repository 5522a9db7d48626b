package recent

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges show the [Ratio] of each route. The configuration bounds the number of routes. They are safe for concurrent use.
type Gauges struct {
	desc *prometheus.Desc
	now  func() time.Time
	zero bool // a route where nothing was counted shows 0; else it is absent

	mu     sync.Mutex
	routes map[string]*Ratio
}

// NewGauges returns the gauges of a name. zero says that a route where nothing was counted shows 0; else it is absent.
func NewGauges(name, help string, now func() time.Time, zero bool) *Gauges {
	return &Gauges{desc: prometheus.NewDesc(name, help, []string{"route"}, nil), now: now, zero: zero, routes: map[string]*Ratio{}}
}

// Add adds to the part and the whole of a route. It reports whether the route is new.
func (g *Gauges) Add(route string, part, whole uint64) (isNew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.routes[route]
	if isNew = r == nil; isNew {
		r = &Ratio{}
		g.routes[route] = r
	}
	r.Add(g.now(), part, whole)
	return isNew
}

// Describe implements [prometheus.Collector].
func (g *Gauges) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements [prometheus.Collector]. It does not block Add.
func (g *Gauges) Collect(to chan<- prometheus.Metric) {
	for _, m := range g.gather() {
		to <- m
	}
}

func (g *Gauges) gather() (all []prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for route, r := range g.routes {
		if share, counted := r.Value(now); counted || g.zero {
			all = append(all, prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, share, route))
		}
	}
	return all
}
