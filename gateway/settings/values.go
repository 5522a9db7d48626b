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

	RoutePolicy    string        // route.policy
	ScrapeInterval time.Duration // scrape.interval
	ConnectTimeout time.Duration // timeout.connect
	RedisTimeout   time.Duration // redis.timeout: longest wait of a request for Redis

	// AllowHighShed is shed.allow_high. shed.high may be below minHighThreshold only with it, so that no
	// single field can reject the whole class high.
	AllowHighShed bool
}

// Client bounds the waits for a client.
type Client struct {
	Body  time.Duration // for a whole body (timeout.body)
	Write time.Duration // for one write to the client (timeout.write)

	EarlyHeaders bool // a stream that waits for its first token for long gets headers and comments (stream.early_headers)
}

// Limit holds the tenants' limits that are the same for all.
type Limit struct {
	HighPriorityShare float64 // share of a tenant's requests that may have priority high, 0 … 1; 0 is all (limit.high_priority_share)
}

// ReceiptLog says which receipts are logged.
type ReceiptLog struct {
	LogShare float64 // share of the requests, 0 … 1 (receipts.log_sample_rate)
}

// Defaults returns the values if nothing is set.
func Defaults() Values {
	var v Values
	r := &v.Tiers.Risk
	r.Rates.Boost, r.Rates.FullRange, r.Rates.ColdStart = plan.AuditBoost, plan.FullRangeShare, plan.ColdStartShare
	r.Rates.Explore, r.Rule.DriftRunLength, r.WarmupDuration = plan.ExploreShare, plan.DriftRunLength, plan.WarmupDuration
	for i := range specs {
		if err := specs[i].kind.set(&v, specs[i].Default); err != nil {
			panic("settings: default of " + specs[i].Name + ": " + err.Error()) // an error in the table; any test finds it
		}
	}
	return v
}
