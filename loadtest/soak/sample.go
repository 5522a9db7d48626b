package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
)

// Sample is what a process held at a moment.
type Sample struct {
	At     float64            `json:"at"`     // seconds since the load began
	Values map[string]float64 `json:"values"` // by resource
}

// Series are the samples of one life of a process, in order of time.
type Series struct {
	Process string   `json:"process"` // such as "gateway 0", "redis"
	Life    int      `json:"life"`    // 1 is the first; each restart begins another
	Whole   bool     `json:"whole"`   // it lived from the beginning to the end
	Samples []Sample `json:"samples"`

	id string // of the life
}

// resource is what is read of a process.
type resource struct {
	name  string
	unit  string
	limit Limit    // of growth
	after bool     // with the load gone it returns to what it was
	of    []string // the metrics, or fields of INFO, that add up to it
}

const inFlight = "in flight"

// gatewayResources are those of a gateway. RSS includes what Go's collector has not returned yet, which varies by the
// size of a heap; the live heap is measured after a collection. What requests under way need (goroutines, files,
// connections) varies with them, so its growth under load has a wide bound, and that without load the narrow one
// (restSlack): a goroutine that each fault leaves behind makes 29 in 30 minutes.
var gatewayResources = []resource{
	{name: "rss", unit: "MiB", limit: Limit{0.10, 32}, of: []string{"process_resident_memory_bytes"}},
	{name: "live heap", unit: "MiB", limit: Limit{0.10, 8}, of: []string{"go_memstats_heap_alloc_bytes"}},
	{name: "goroutines", limit: Limit{0.2, 20}, after: true, of: []string{"go_goroutines"}},
	{name: "files", limit: Limit{0.2, 20}, after: true, of: []string{"process_open_fds"}},
	{name: "connections", limit: Limit{0.2, 20}, after: true, of: []string{"foregate_connections"}}, // of clients
	{name: inFlight, limit: Limit{0.2, 20}, after: true, of: []string{"foregate_requests_in_flight", "foregate_backend_requests_in_flight"}},
}

// redisResources are those of Redis.
var redisResources = []resource{
	{name: "memory", unit: "MiB", limit: Limit{0.10, 4}, of: []string{"used_memory"}},
	{name: "keys", limit: Limit{0.10, 100}},
	{name: "clients", limit: Limit{0.2, 20}, of: []string{"connected_clients"}},
}

// resources are those of a process of a series.
func (s *Series) resources() []resource {
	if s.Process == redisName {
		return redisResources
	}
	return gatewayResources
}

// points are the readings of a resource from a time on, in seconds.
func (s *Series) points(name string, from float64) (out []Point) {
	for _, sample := range s.Samples {
		if sample.At >= from {
			out = append(out, Point{sample.At, sample.Values[name]})
		}
	}
	return out
}

const (
	redisName = "redis"
	readings  = 9 // in a sample, which has the median of each
)

// value adds up what makes a resource, in its unit.
func (r *resource) value(get func(name string) (float64, error)) (sum float64, err error) {
	for _, name := range r.of {
		v, failed := get(name)
		if sum += v; failed != nil && !errors.Is(failed, process.ErrNoMetric) || failed != nil && len(r.of) == 1 {
			err = fmt.Errorf("%s: %w", name, failed)
		}
	}
	if r.unit == "MiB" {
		sum /= 1 << 20
	}
	return sum, err
}

// readGateway reads a gateway once.
func readGateway(ctx context.Context, g *chaos.Gateway) (reading, error) {
	m, err := g.Metrics(ctx)
	out := reading{g.Name, strconv.Itoa(g.PID()), map[string]float64{}}
	for i := range gatewayResources {
		r := &gatewayResources[i]
		if err == nil {
			out.values[r.name], err = r.value(func(name string) (float64, error) { return m.Total(name) })
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", g.Name, err)
	}
	return out, err
}

// readRedis reads Redis once.
func readRedis(ctx context.Context, s *chaos.Server) (reading, error) {
	life, err := s.Info(ctx, "run_id")
	out := reading{redisName, life, map[string]float64{}}
	for i := range redisResources {
		r := &redisResources[i]
		if err == nil {
			out.values[r.name], err = r.value(func(name string) (float64, error) {
				text, err := s.Info(ctx, name)
				v, _ := strconv.ParseFloat(text, 64) // Redis' own number
				return v, err
			})
		}
	}
	if err != nil {
		return out, err
	}
	keys, err := s.Client.DBSize(ctx).Result()
	out.values["keys"] = float64(keys)
	return out, err
}

// reading is what one process held at one reading.
type reading struct {
	process, life string
	values        map[string]float64
}

// read reads all processes once. A process that does not answer is an error: at rest everything does.
func read(ctx context.Context, w *chaos.Testbed) (all []reading, err error) {
	for _, g := range w.Gateways {
		r, err := readGateway(ctx, g)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	r, err := readRedis(ctx, w.Redis.Servers[0])
	return append(all, r), err
}

// sample reads all processes several times within a span, and returns the medians.
func sample(ctx context.Context, w *chaos.Testbed, span time.Duration) ([]reading, error) {
	var rounds [][]reading
	for n := range readings {
		if n > 0 {
			if err := w.Hold(ctx, span/readings); err != nil {
				return nil, err
			}
		}
		all, err := read(ctx, w)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, all)
	}
	middle := medians(rounds)
	for i, g := range w.Gateways {
		if _, err := g.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil { // its collector runs
			return nil, err
		}
		r, err := readGateway(ctx, g)
		if err != nil {
			return nil, err
		}
		middle[i].values["live heap"] = r.values["live heap"]
	}
	return middle, nil
}

// medians are those of each value over rounds of the same processes.
func medians(rounds [][]reading) []reading {
	out := rounds[0]
	for i := range out {
		for name := range out[i].values {
			var all []float64
			for _, round := range rounds {
				all = append(all, round[i].values[name])
			}
			out[i].values[name] = median(all)
		}
	}
	return out
}

// wholes marks the processes that were never restarted.
func wholes(all []*Series) {
	lives := map[string]int{}
	for _, s := range all {
		lives[s.Process] = max(lives[s.Process], s.Life)
	}
	for _, s := range all {
		s.Whole = lives[s.Process] == 1
	}
}

// keep appends a sample to the series of each process, or begins one for a process that was restarted.
func keep(series []*Series, at float64, sample []reading) []*Series {
	for _, r := range sample {
		var last *Series
		for _, s := range series {
			if s.Process == r.process {
				last = s
			}
		}
		if last == nil || last.id != r.life {
			next := &Series{Process: r.process, Life: 1, id: r.life}
			if last != nil {
				next.Life = last.Life + 1
			}
			series, last = append(series, next), next
		}
		last.Samples = append(last.Samples, Sample{at, r.values})
	}
	return series
}
