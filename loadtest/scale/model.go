// Package scale tells what a fleet asks of its Redis, and up to what size a topology carries it. It starts small fleets that
// differ in one thing each (replicas, pools, backends, requests), with real replicas, a real Redis and simulated engines, and
// asks Redis what each took. From the differences it computes what one of each costs ([Fit]), and from that what any fleet
// takes ([Model.Predict]). A last fleet, as large as the machine carries, is measured and compared with what was predicted.
//
// Nothing in the arithmetic is typed in: intervals, sizes of keys and messages are in what Redis has counted. It is linear, as
// the package comments of tiers/fleet and breaker say that the loops are. It leaves out that a fuller round trip costs Redis
// less for each command, so large fleets are predicted as too expensive rather than as too cheap. The share of the predicted CPU
// time that the last fleet needs says how much ([Check.Share]). Start at [Run].
package scale

// Fleet is the size of a fleet and of its load.
type Fleet struct {
	Replicas int     `json:"replicas"`
	Pools    int     `json:"pools"`
	Backends int     `json:"backends"` // of all pools together
	Requests float64 `json:"requests_per_second"`

	Limited bool `json:"limited"` // tenants have limits per minute
	Cached  bool `json:"cached"`  // answers are kept; no request finds one, which costs most
}

// Cost is what Redis did for something, a second.
type Cost struct {
	Commands float64 `json:"commands"`     // executed, those inside scripts included
	Scripts  float64 `json:"scripts"`      // calls of scripts
	In       float64 `json:"bytes_in"`     // received
	Out      float64 `json:"bytes_out"`    // sent
	Busy     float64 `json:"busy_seconds"` // CPU time of the process in all its threads; at a low rate every command wakes it
	Exec     float64 `json:"exec_seconds"` // in scripts alone
}

// combine applies a function to both costs' figures.
func (c Cost) combine(d Cost, f func(a, b float64) float64) Cost {
	return Cost{f(c.Commands, d.Commands), f(c.Scripts, d.Scripts), f(c.In, d.In), f(c.Out, d.Out), f(c.Busy, d.Busy), f(c.Exec, d.Exec)}
}

func (c Cost) plus(d Cost) Cost  { return c.combine(d, func(a, b float64) float64 { return a + b }) }
func (c Cost) minus(d Cost) Cost { return c.combine(d, func(a, b float64) float64 { return a - b }) }

// times scales a cost.
func (c Cost) times(k float64) Cost { return c.combine(c, func(a, _ float64) float64 { return a * k }) }

// atLeastZero replaces what the noise of a measurement made negative.
func (c Cost) atLeastZero() Cost {
	return c.combine(c, func(a, _ float64) float64 { return max(a, 0) })
}

// Model is what one of each costs Redis.
type Model struct {
	Replica        Cost `json:"per_replica"`
	ReplicaPool    Cost `json:"per_replica_and_pool"`
	ReplicaBackend Cost `json:"per_replica_and_backend"` // readings that are handed out, breakers that are compared
	Backend        Cost `json:"per_backend"`             // readings that are told
	Request        Cost `json:"per_request"`             // without limits and cache
	Limit          Cost `json:"per_limited_request"`     // beside Request
	Cache          Cost `json:"per_cached_request"`      // beside Request
	// CacheReplica comes with each kept answer for every replica: Redis tells all of them that the key has changed.
	CacheReplica Cost `json:"per_cached_request_and_replica"`
}

// Measured is a fleet and what Redis did for it.
type Measured struct {
	Fleet Fleet `json:"fleet"`
	Cost  Cost  `json:"cost"`
}

// The fleets of a fit. Each of the first three after the base differs from it in one thing. The others have requests: as many
// for each replica and backend as in a large fleet (50 replicas, 500 backends, 20,000 requests/s: 0.8 a second), and in the
// last two, which differ in the cache alone, from more replicas.
const (
	fitBase = iota
	fitReplicas
	fitPools
	fitBackends
	fitRequests
	fitLimits
	fitCache
	fitWide
	fitWideCache
	fits
)

// plans are the fleets that a fit needs.
func plans() [fits]Fleet {
	base := Fleet{Replicas: 2, Pools: 1, Backends: 10}
	var p [fits]Fleet
	for i := range p {
		p[i] = base
	}
	p[fitReplicas].Replicas, p[fitPools].Pools, p[fitBackends].Backends = 4, 5, 40
	for i := fitRequests; i < fits; i++ {
		p[i].Backends, p[i].Requests = 40, 64
	}
	p[fitLimits].Limited, p[fitCache].Cached, p[fitWideCache].Cached = true, true, true
	for _, i := range []int{fitWide, fitWideCache} {
		p[i].Requests *= float64(p[i].Replicas+4) / float64(p[i].Replicas)
		p[i].Replicas += 4
	}
	return p
}

// Fit computes what one of each costs, from the costs of the fleets of a fit, in their order. For a fleet without requests,
// cost = replicas·(Replica + pools·ReplicaPool + backends·ReplicaBackend) + backends·Backend.
func Fit(costs [fits]Cost) Model {
	p := plans()
	base := p[fitBase]
	perReplica := costs[fitReplicas].minus(costs[fitBase]).times(1 / float64(p[fitReplicas].Replicas-base.Replicas))
	var m Model
	m.ReplicaPool = costs[fitPools].minus(costs[fitBase]).times(1 / float64(base.Replicas*(p[fitPools].Pools-base.Pools))).atLeastZero()
	m.Backend = costs[fitBase].minus(perReplica.times(float64(base.Replicas))).times(1 / float64(base.Backends)).atLeastZero()
	more := float64(p[fitBackends].Backends - base.Backends)
	m.ReplicaBackend = costs[fitBackends].minus(costs[fitBase]).minus(m.Backend.times(more)).times(1 / (more * float64(base.Replicas))).atLeastZero()
	m.Replica = perReplica.minus(m.ReplicaPool.times(float64(base.Pools))).minus(m.ReplicaBackend.times(float64(base.Backends))).atLeastZero()
	perSecond := 1 / p[fitRequests].Requests
	m.Request = costs[fitRequests].minus(costs[fitBackends]).times(perSecond).atLeastZero()
	m.Limit = costs[fitLimits].minus(costs[fitRequests]).times(perSecond).atLeastZero()
	narrow := costs[fitCache].minus(costs[fitRequests]).times(perSecond)
	wide := costs[fitWideCache].minus(costs[fitWide]).times(1 / p[fitWide].Requests)
	told := wide.minus(narrow).times(1 / float64(p[fitWide].Replicas-base.Replicas)).atLeastZero()
	m.CacheReplica = Cost{Out: told.Out, Busy: told.Busy} // what Redis tells by itself is no command, and nothing comes in
	m.Cache = narrow.minus(m.CacheReplica.times(float64(base.Replicas))).atLeastZero()
	return m
}

// Parts is what a fleet asks of Redis, by what could be kept in a Redis of its own.
type Parts struct {
	Control Cost `json:"control"` // state of the fleet, breakers, settings, evidence
	Limits  Cost `json:"limits"`
	Answers Cost `json:"answers"` // cached answers; redis.cache_url may name another Redis, or a cluster
}

// Total is all of it.
func (p Parts) Total() Cost { return p.Control.plus(p.Limits).plus(p.Answers) }

// Predict computes what a fleet asks of Redis.
func (m Model) Predict(f Fleet) Parts {
	r, b := float64(f.Replicas), float64(f.Backends)
	each := m.Replica.plus(m.ReplicaPool.times(float64(f.Pools))).plus(m.ReplicaBackend.times(b))
	p := Parts{Control: each.times(r).plus(m.Backend.times(b)).plus(m.Request.times(f.Requests))}
	if f.Limited {
		p.Limits = m.Limit.times(f.Requests)
	}
	if f.Cached {
		p.Answers = m.Cache.plus(m.CacheReplica.times(r)).times(f.Requests)
	}
	return p
}

// maxBusy is the share of a core that Redis should be busy at most: it executes commands in one thread, and requests wait for
// some of them.
const maxBusy = 0.6

// The topologies, from the simplest on.
const (
	OneRedis      = "one Redis"
	TwoRedis      = "a Redis of its own for answers"
	ClusterCache  = "a cluster for answers"
	BeyondControl = "none"
)

// Topology returns the simplest topology that carries the parts if Redis needs this share of their CPU time. The keys of the
// fleet and of limits have one hash tag, so they need one Redis whatever the topology; [BeyondControl] says that it does not
// suffice.
func (p Parts) Topology(share float64) string {
	control, answers := share*p.Control.plus(p.Limits).Busy, share*p.Answers.Busy
	switch {
	case control+answers <= maxBusy:
		return OneRedis
	case control > maxBusy:
		return BeyondControl
	case answers <= maxBusy:
		return TwoRedis
	}
	return ClusterCache
}

// largest is the fleet of the greatest size: 50 replicas, 500 backends, 20,000 requests/s.
var largest = Fleet{Replicas: 50, Pools: 10, Backends: 500, Requests: 20_000, Limited: true, Cached: true}

// End is the largest fleet that a topology carries, in the proportions of the largest.
type End struct {
	Topology string `json:"topology"`
	Fleet    Fleet  `json:"fleet"`
}

// Ends returns the largest fleets that a topology carries if Redis needs this share of the predicted CPU time, from the simplest
// topology on, in steps of one replica, with ten pools. A topology that carries no more than a simpler one is left out.
func (m Model) Ends(share float64) (ends []End) {
	for replicas := 1; replicas <= largest.Replicas; replicas++ {
		f := largest
		f.Replicas, f.Backends = replicas, largest.Backends*replicas/largest.Replicas
		f.Requests = largest.Requests * float64(replicas) / float64(largest.Replicas)
		name := m.Predict(f).Topology(share)
		if name == BeyondControl {
			break
		}
		if n := len(ends); n > 0 && ends[n-1].Topology == name {
			ends[n-1].Fleet = f
			continue
		}
		ends = append(ends, End{name, f})
	}
	return ends
}
