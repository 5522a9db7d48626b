package console

import (
	"encoding/json"
	"math"
	"time"
)

// Sample is how things stood at one time: what charts draw a point of. A number that nothing is
// known for is null. Rates are over the last ten seconds, shares and percentiles over thirty.
type Sample struct {
	Time           float64            `json:"t"`                // Unix seconds
	Replicas       int                `json:"replicas"`         // that live
	RedisLevel     string             `json:"redis_level"`      // of the replicas told of, the worst: shared, degraded, local
	InFlight       float64            `json:"in_flight"`        // requests
	Requests       map[string]float64 `json:"requests"`         // a second, by what answered: draft, mixed, target, cache; refused (4xx, 503), failed (other 5xx, broken off)
	Acceptance     *float64           `json:"acceptance"`       // share of the judged drafts that were served
	WrongRateBound *float64           `json:"wrong_rate_bound"` // share of served drafts that the target would refuse: proven to be less, for the kind of request that comes nearest to its promise; null while no draft is served on a proof
	MaxWrongRate   *float64           `json:"max_wrong_rate"`   // what that must stay below, for the same kind
	CacheHitRatio  *float64           `json:"cache_hit_ratio"`  // share of the requests that asked the cache
	TTFT           *Quantiles         `json:"ttft"`             // seconds to the first byte
	Latency        *Quantiles         `json:"latency"`          // seconds to the end of the answer
	KV             map[string]float64 `json:"kv"`               // usage of backends' KV caches, 0 … 1, by pool/backend
	ShedThresholds map[string]float64 `json:"shed_thresholds"`  // usage above which a class is shed, by class
	Breakers       map[string]float64 `json:"breakers"`         // 1 half-open, 2 open, by pool/backend; closed ones are left out
	Shed           map[string]float64 `json:"shed"`             // requests refused a second, by class
	Shedding       []string           `json:"shedding"`         // pool/class that is shed now
	Spent          float64            `json:"spent"`            // USD, since the start: by the work of the backends
	Saved          float64            `json:"saved"`            // USD, since the start: by drafts and by the cache
	SpentPerHour   *float64           `json:"spent_per_hour"`   // USD an hour
	SavedPerHour   *float64           `json:"saved_per_hour"`   // USD an hour
	LeftOut        int                `json:"omitted"`          // backends beyond the first 200 of kv
}

// Quantiles are percentiles, in seconds, as far as a histogram's buckets tell.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// sampleOf compares the last counts with those before. There is at least one.
func sampleOf(all []counts, facts ReplicaState) Sample {
	now, first := all[len(all)-1], all[0]
	recent := first
	for _, c := range all { // the youngest that is as old as rates want
		if now.at.Sub(c.at) >= rateSpan {
			recent = c
		}
	}
	s := Sample{
		Time: float64(now.at.UnixMilli()) / 1000, Replicas: facts.Replicas, RedisLevel: now.redisLevel, InFlight: now.inFlight,
		Requests:      rates(recent, now, func(c *counts) map[string]float64 { return c.requests }),
		Shed:          rates(recent, now, func(c *counts) map[string]float64 { return c.shed }),
		Acceptance:    share(now.accepted-first.accepted, now.judged-first.judged),
		CacheHitRatio: share(now.hits-first.hits, now.lookups-first.lookups),
		TTFT:          now.ttft.since(first.ttft), Latency: now.latency.since(first.latency),
		KV: now.kv, ShedThresholds: facts.ShedThresholds, Breakers: now.breakers, Shedding: now.shedding, LeftOut: now.leftOut,
		Spent: now.spent, Saved: now.saved,
	}
	if k := now.worst(); k != nil {
		s.WrongRateBound, s.MaxWrongRate = &k.bound, &k.maxWrongRate
	}
	if hours := now.at.Sub(first.at).Hours(); hours > 0 {
		spent, saved := (now.spent-first.spent)/hours, (now.saved-first.saved)/hours
		s.SpentPerHour, s.SavedPerHour = &spent, &saved
	}
	return s
}

// rates are the increases a second from one count to another, of what there is in the later.
func rates(from, to counts, of func(*counts) map[string]float64) map[string]float64 {
	out, old := map[string]float64{}, of(&from)
	span := to.at.Sub(from.at).Seconds()
	for name, n := range of(&to) {
		out[name] = 0
		if span > 0 {
			out[name] = max(0, n-old[name]) / span
		}
	}
	return out
}

// share is part of whole, and nil of nothing.
func share(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	v := min(max(part/whole, 0), 1)
	return &v
}

// encode is a sample as JSON.
func encode(s Sample) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // only numbers that are not finite cannot be encoded; count leaves them out
	}
	return b
}

// histogram is the sum of several, by the upper ends of their buckets: how many were at most
// so long. Buckets are those of one metric, the same in all of them.
type histogram struct {
	ends  []float64 // seconds, rising, the last +Inf
	below []float64
}

// since is what came between two states of a histogram; nil where nothing came, or no bucket has
// an end.
func (h histogram) since(old histogram) *Quantiles {
	if len(h.ends) < 2 {
		return nil
	}
	below := make([]float64, len(h.below))
	for i := range below {
		below[i] = h.below[i]
		if len(old.below) == len(h.below) {
			below[i] -= old.below[i]
		}
	}
	if below[len(below)-1] <= 0 {
		return nil
	}
	return &Quantiles{quantile(h.ends, below, .5), quantile(h.ends, below, .95), quantile(h.ends, below, .99)}
}

// quantile is Prometheus' histogram_quantile: linear within a bucket, from 0 in the first, and the
// last finite end for what lies beyond it.
func quantile(ends, below []float64, q float64) float64 {
	rank := q * below[len(below)-1]
	lower, before := 0.0, 0.0
	for i, end := range ends {
		if below[i] < rank {
			lower, before = end, below[i]
			continue
		}
		if math.IsInf(end, 1) {
			return lower
		}
		if i == 0 && end <= 0 {
			return end
		}
		return lower + (end-lower)*(rank-before)/(below[i]-before)
	}
	return lower
}

// counts are what metrics stood at, at one time, summed over what labels tell apart.
type counts struct {
	at         time.Time
	redisLevel string
	inFlight   float64

	requests, shed   map[string]float64
	accepted, judged float64
	hits, lookups    float64
	ttft, latency    histogram
	spent, saved     float64

	classes      map[[3]string]*classCount // by route, traffic class and cohort
	kv, breakers map[string]float64
	shedding     []string
	leftOut      int
}

// classCount is how the promise of one kind of request stands.
type classCount struct {
	index               float64 // thresholds that are certified; 0: no draft is served
	bound, maxWrongRate float64 // share of drafts that the target would refuse
}
