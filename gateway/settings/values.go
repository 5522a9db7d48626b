// Package settings holds the live settings, which operators change while the gateway runs: one Redis hash
// that every replica reads twice a second. Start at [New], which returns a [Watcher]; a request reads its
// [Snapshot] once. It guarantees that a snapshot is immutable and always in range; that a field which cannot
// be parsed, is out of range or contradicts another one keeps its last good value and is listed in
// [Snapshot.Rejected], the log and the metrics; and that an unreadable Redis changes nothing.
package settings

import (
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/tiers/plan"
)

// Values are all settings, in the types of the packages that use them.
type Values struct {
	Tiers      plan.Config
	Admission  admission.Config
	Breaker    breaker.Config
	Client     Client
	Limit      Limit
	Cache      cache.Config
	ReceiptLog ReceiptLog
	Responses  conversations.Config

	RoutePolicy    string        `setting:"route.policy,fleet" default:"fit" choice:"fit,round_robin" doc:"How a backend of a pool is chosen. 'fit' weighs prefix-cache hits, KV memory and load; 'round_robin' is a baseline for comparison."`
	ScrapeInterval time.Duration `setting:"scrape.interval,fleet" default:"500ms" min:"20ms" max:"1m" doc:"How often a replica scrapes a backend's metrics. A reading is used unchanged for 2 s, so a value above 1s is not recommended."`
	ConnectTimeout time.Duration `setting:"timeout.connect,fleet" default:"1s" min:"10ms" max:"1m" doc:"Longest time to open a connection to a backend. A TLS handshake may take 10 s more."`
	RedisTimeout   time.Duration `setting:"redis.timeout,fleet" default:"15ms" min:"1ms" max:"1s" doc:"Longest time that a request waits for Redis: for the cache and for its tenant's limits and budgets together. After it the request is answered without the cache, and the replica decides with its own counts."`

	// AllowHighShed is shed.allow_high. shed.high may be below minHighThreshold only with it, so that no
	// single field can reject the whole class high.
	AllowHighShed bool `setting:"shed.allow_high" default:"no" choice:"yes,no" doc:"Safety catch: 'shed.high' may be below 0.5 only if this is 'yes', so that one mistake cannot shed all traffic."`
}

// Client bounds the waits for a client.
type Client struct {
	Body  time.Duration `setting:"timeout.body,fleet" default:"60s" min:"10ms" max:"1h" doc:"Longest time for a client to send its whole request body."`
	Write time.Duration `setting:"timeout.write" default:"10s" min:"10ms" max:"1h" doc:"How long a client may block one write of its answer. Then its connection is closed, or with HTTP/2 its stream, and its generation is cancelled. With HTTP/2 a connection that takes no byte for 15 s is closed in any case."`

	EarlyHeaders bool `setting:"stream.early_headers" default:"no" choice:"yes,no" doc:"What the client of a stream gets that waits for its first token for 10 s. 'yes': the headers and a comment, and one more after each 10 s, so that no proxy takes its connection for dead; then the headers do not tell the tier, and an error comes as an event. 'no': nothing. Once the headers are out, comments are sent in any case."`
}

// Limit holds the tenants' limits that are the same for all.
type Limit struct {
	HighPriorityShare float64 `setting:"limit.high_priority_share,fleet" default:"0.2" min:"0" max:"1" doc:"Share of a tenant's requests that may have priority 'high'; requests beyond it are served with priority 'normal'. 0 means no limit."`
}

// ReceiptLog says which receipts are logged.
type ReceiptLog struct {
	LogShare float64 `setting:"receipts.log_sample_rate,fleet" default:"0.01" min:"0" max:"1" doc:"Share of requests whose receipt is written to the log, chosen at random. The admin listener always has the last 1,000 receipts."`
}

// Defaults returns the values if nothing is set.
func Defaults() Values {
	var v Values
	r := &v.Tiers.Risk
	r.Rates.Boost, r.Rates.FullRange, r.Rates.ColdStart = plan.AuditBoost, plan.FullRangeShare, plan.ColdStartShare
	r.Rates.Explore, r.Rule.DriftRunLength, r.WarmupDuration = plan.ExploreShare, plan.DriftRunLength, plan.WarmupDuration
	for i := range specs {
		if err := specs[i].set(&v, specs[i].Default); err != nil {
			panic("settings: default of " + specs[i].Name + ": " + err.Error()) // an error in the table; any test finds it
		}
	}
	return v
}
