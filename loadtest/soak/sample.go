package soak

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
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
	limit Limit // of growth
	after bool  // with the load gone it returns to what it was
}

const (
	mib = 1 << 20

	inFlight = "in flight"
)

// gatewayResources are those of a gateway. RSS includes what Go's collector has not returned yet, which varies by the
// size of a heap; the live heap is measured after a collection. What requests under way need (goroutines, files,
// connections) varies with them, so its growth under load has a wide bound, and that without load the narrow one
// (restSlack): a goroutine that each fault leaves behind makes 29 in 30 minutes.
var gatewayResources = []resource{
	{name: "rss", unit: "MiB", limit: Limit{0.10, 32}},
	{name: "live heap", unit: "MiB", limit: Limit{0.10, 8}},
	{name: "goroutines", limit: Limit{0.2, 20}, after: true},
	{name: "files", limit: Limit{0.2, 20}, after: true},
	{name: "connections", limit: Limit{0.2, 20}, after: true}, // of clients
	{name: inFlight, limit: Limit{0.2, 20}, after: true},
}

// redisResources are those of Redis.
var redisResources = []resource{
	{name: "memory", unit: "MiB", limit: Limit{0.10, 4}},
	{name: "keys", limit: Limit{0.10, 100}},
	{name: "clients", limit: Limit{0.2, 20}},
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

// readGateway reads a gateway once.
func readGateway(ctx context.Context, g *chaos.Gateway) (map[string]float64, error) {
	m, err := g.Metrics(ctx)
	if err != nil {
		return nil, fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	out := map[string]float64{
		"connections": m.Sum("foregate_connections"),
		inFlight:      m.Sum("foregate_requests_in_flight") + m.Sum("foregate_backend_requests_in_flight"),
	}
	for name, metric := range map[string]string{
		"rss": "process_resident_memory_bytes", "live heap": "go_memstats_heap_alloc_bytes", "goroutines": "go_goroutines", "files": "process_open_fds",
	} {
		v, ok := m.Value(metric)
		if !ok {
			return nil, fmt.Errorf("gateway %d has no metric %s on this system", g.Number, metric)
		}
		out[name] = v
	}
	out["rss"], out["live heap"] = out["rss"]/mib, out["live heap"]/mib
	return out, nil
}

// collect has a gateway's collector run, and returns the live heap in MiB.
func collect(ctx context.Context, g *chaos.Gateway) (float64, error) {
	if _, err := g.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return 0, fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	m, err := g.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	heap, _ := m.Value("go_memstats_heap_alloc_bytes") // Go's own, on all systems
	return heap / mib, nil
}

// readRedis reads Redis once; life tells its lives apart.
func readRedis(ctx context.Context, s *chaos.Server) (all map[string]float64, life string, err error) {
	info := func(field string) (value string) {
		if err == nil {
			value, err = s.Info(ctx, field)
		}
		return value
	}
	memory, _ := strconv.ParseFloat(info("used_memory"), 64) // Redis' own numbers
	clients, _ := strconv.ParseFloat(info("connected_clients"), 64)
	life = info("run_id")
	if err != nil {
		return nil, "", err
	}
	keys, err := s.Client.DBSize(ctx).Result()
	return map[string]float64{"memory": memory / mib, "keys": float64(keys), "clients": clients}, life, err
}

// reading is what one process held at one reading.
type reading struct {
	process, life string
	values        map[string]float64
}

// read reads all processes once. A process that does not answer is an error: at rest everything does.
func read(ctx context.Context, w *chaos.Testbed) (all []reading, err error) {
	for _, g := range w.Gateways {
		values, err := readGateway(ctx, g)
		if err != nil {
			return nil, err
		}
		all = append(all, reading{fmt.Sprintf("gateway %d", g.Number), strconv.Itoa(g.PID()), values})
	}
	values, life, err := readRedis(ctx, w.Redis.Servers[0])
	return append(all, reading{redisName, life, values}), err
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
		heap, err := collect(ctx, g)
		if err != nil {
			return nil, err
		}
		middle[i].values["live heap"] = heap
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
