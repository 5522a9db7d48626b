package pool

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// engineCounter shows a counter of the engines as each was last read. It starts from 0 again when
// its engine does, as counters may. One entry for each backend there is.
type engineCounter struct {
	desc *prometheus.Desc

	mu   sync.Mutex
	last map[[2]string]float64 // by pool and backend
}

func newEngineCounter(name, help string) *engineCounter {
	return &engineCounter{
		desc: prometheus.NewDesc(name, help, []string{"pool", "backend"}, nil),
		last: map[[2]string]float64{},
	}
}

func (c *engineCounter) set(pool, backend string, v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[[2]string{pool, backend}] = v
}

func (c *engineCounter) forget(pool, backend string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, [2]string{pool, backend})
}

// Describe implements [prometheus.Collector].
func (c *engineCounter) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector]. The reader must not hold up who sets.
func (c *engineCounter) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	all := make([]prometheus.Metric, 0, len(c.last))
	for k, v := range c.last {
		all = append(all, prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, v, k[0], k[1]))
	}
	c.mu.Unlock()
	for _, m := range all {
		to <- m
	}
}
