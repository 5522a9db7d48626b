// Package settings holds what operators change while the gateway runs: one
// Redis hash, read by every replica twice a second. Start at [New], which
// returns a [Watcher]; a request reads its [Snapshot] once.
//
// It guarantees that a snapshot is immutable and always in range, that a field
// which does not parse, is out of range or contradicts another keeps the last
// good value and is named in [Snapshot.Rejected], the log and the metrics, and
// that an unreadable Redis changes nothing.
package settings

import (
	"time"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pressure"
	"github.com/foregate/foregate/tiers/upstream"
)

// Values are all settings as the packages that obey them take them.
type Values struct {
	Tiers      plan.Config
	Pool       choose.Config
	Pressure   pressure.Config // ages are pressure's defaults
	Admission  admission.Config
	Breaker    machine.Config
	Dial       upstream.Dial
	Client     Client
	Limit      Limit
	Cache      cache.Config
	ReceiptLog ReceiptLog

	// AllowHighShed is shed.allow_high: only with it may shed.high be below
	// minHighThreshold, so that no single field can turn the high class away.
	AllowHighShed bool
}

// Client bounds what is waited for a client.
type Client struct {
	BodyStart time.Duration // for a body to start (timeout.body_start)
	Body      time.Duration // for a whole body (timeout.body)
	Write     time.Duration // for the client to accept one write (timeout.write)
}

// Limit is what of the tenants' limits is the same for all.
type Limit struct {
	HighPriorityShare float64       // of a tenant's requests that may have priority high, 0 … 1; 0 is all (limit.high_priority_share)
	RedisTimeout      time.Duration // the longest wait of a request for Redis (limit.redis_timeout)
}

// ReceiptLog says what becomes of the records of what was decided.
type ReceiptLog struct {
	LogShare float64 // of the requests, whose are written to the log, 0 … 1 (receipts.log_sample_rate)
}

// Defaults returns the values of a deployment in which nothing is set.
func Defaults() Values {
	var v Values
	for i := range specs {
		if err := specs[i].kind.set(&v, specs[i].Default); err != nil {
			panic("settings: default of " + specs[i].Name + ": " + err.Error()) // the table is wrong; any test finds it
		}
	}
	return v
}
