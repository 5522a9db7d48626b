package console

import (
	"math"
	"time"
)

// Sample is the state at one time: one point of each chart. Null means unknown. Rates cover the last ten
// seconds, shares and percentiles thirty.
type Sample struct {
	Time              float64            `json:"t"`                  // Unix seconds
	Replicas          int                `json:"replicas"`           // live replicas
	Covered           int                `json:"covered"`            // replicas that the other figures are of
	RedisLevel        string             `json:"redis_level"`        // the worst of the replicas: shared, local
	InFlight          float64            `json:"in_flight"`          // requests
	Requests          map[string]float64 `json:"requests"`           // per second: draft, mixed, target, cache; refused (4xx, 503), failed (other 5xx, broken off)
	Acceptance        *float64           `json:"acceptance"`         // share of the judged drafts that were served
	Drafted           *float64           `json:"drafted"`            // share of all requests whose draft was judged
	ServedByDraft     *float64           `json:"served_by_draft"`    // share of all requests that their draft answered
	DisagreementBound *float64           `json:"disagreement_bound"` // proven bound of the disagreement, see counts.worst; null without a certificate
	MaxDisagreement   *float64           `json:"max_disagreement"`   // the promised maximum for the same traffic class
	CacheHitRatio     *float64           `json:"cache_hit_ratio"`    // share of the requests that used the cache
	TTFT              *Quantiles         `json:"ttft"`               // seconds to the first byte of streams
	Latency           *Quantiles         `json:"latency"`            // seconds to the end of whole answers
	KV                map[string]float64 `json:"kv"`                 // usage of backends' KV caches, 0 … 1, by pool/backend
	ShedThresholds    map[string]float64 `json:"shed_thresholds"`    // usage above which a class is shed, by class
	Breakers          map[string]float64 `json:"breakers"`           // 1 half-open, 2 open, by pool/backend; without closed ones
	Shed              map[string]float64 `json:"shed"`               // requests refused per second, by class
	Shedding          []string           `json:"shedding"`           // pool/class shed now
	Spent             *float64           `json:"spent"`              // USD since the start: the backends' work; null while prices are unknown
	Saved             *float64           `json:"saved"`              // USD since the start: by drafts and by the cache; null as above
	SpentPerHour      *float64           `json:"spent_per_hour"`     // USD per hour
	SavedPerHour      *float64           `json:"saved_per_hour"`     // USD per hour
	RentPerHour       float64            `json:"rent_per_hour"`      // USD per hour of the backends, busy or not
	LeftOut           int                `json:"omitted"`            // backends beyond the first 200 of kv
}

// Quantiles are percentiles in seconds, as precise as the histogram's buckets.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// sampleOf compares the last counts with earlier ones. There is at least one.
func sampleOf(all []counts, facts ReplicaState) Sample {
	now, first := all[len(all)-1], all[0]
	recent := first
	for _, c := range all { // the newest that is old enough for rates
		if now.at.Sub(c.at) >= rateSpan {
			recent = c
		}
	}
	s := Sample{
		Time: unixSeconds(now.at), Replicas: facts.Replicas, Covered: now.covered, RedisLevel: now.redisLevel, InFlight: now.inFlight,
		Requests:      rates(recent, now, func(c *counts) map[string]float64 { return c.requests }),
		Shed:          rates(recent, now, func(c *counts) map[string]float64 { return c.shed }),
		Acceptance:    share(now.accepted-first.accepted, now.judged-first.judged),
		CacheHitRatio: share(now.hits-first.hits, now.lookups-first.lookups),
		TTFT:          now.ttft.since(first.ttft), Latency: now.latency.since(first.latency),
		KV: now.kv, ShedThresholds: facts.ShedThresholds, Breakers: now.breakers, Shedding: now.shedding, LeftOut: now.leftOut,
	}
	s.money(&now, &first)
	requests := total(now.requests) - total(first.requests)
	s.Drafted, s.ServedByDraft = share(now.judged-first.judged, requests), share(now.accepted-first.accepted, requests)
	if k := now.worst(); k != nil {
		s.DisagreementBound, s.MaxDisagreement = &k.bound, &k.maxDisagreement
	}
	return s
}

// money sets the rent, and what was spent and saved unless no price was known.
func (s *Sample) money(now, first *counts) {
	s.RentPerHour = total(now.rents)
	if now.unpriced > 0 && now.spent == 0 {
		return
	}
	s.Spent, s.Saved = &now.spent, &now.saved
	if hours := now.at.Sub(first.at).Hours(); hours > 0 {
		s.SpentPerHour, s.SavedPerHour = new((now.spent-first.spent)/hours), new((now.saved-first.saved)/hours)
	}
}

// total is the sum of counts.
func total(n map[string]float64) (sum float64) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// rates are the increases per second from one count to another, for the keys of the later one.
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

// share is part ÷ whole, nil if whole is 0.
func share(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	v := min(max(part/whole, 0), 1)
	return &v
}

// histogram is a sum of histograms with the same buckets: cumulative counts by upper bound.
type histogram struct {
	ends  []float64 // rising, the last +Inf
	below []float64
}

// since returns the quantiles of the observations between two states of a histogram; nil if there are none,
// or no bucket has a finite bound.
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

// quantile is Prometheus' histogram_quantile: linear within a bucket, from 0 in the first; values beyond the
// last finite bound give that bound.
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

// counts are the values of the metrics at one time, summed over their labels.
type counts struct {
	at         time.Time
	redisLevel string
	inFlight   float64
	covered    int // replicas

	requests, shed   map[string]float64
	accepted, judged float64
	hits, lookups    float64
	ttft, latency    histogram
	spent, saved     float64
	unpriced         float64

	classes             map[[2]string]*classCount // by route and traffic class
	kv, breakers, rents map[string]float64        // by backend; rents in USD per hour
	shedding            []string
	leftOut             int
}

// classCount is the state of the promise of one traffic class.
type classCount struct {
	certified              bool    // drafts are served by a certified threshold
	bound, maxDisagreement float64 // share of drafts that the target would refuse
}
