// Package admission decides whether a request may enter: by its tenant's rate
// ([Limiter]) and by the pressure on the pool it would go to ([Shed],
// [Shedder]). Start at [Shed], a function of values; the two types beside it
// only remember.
//
// It guarantees that a reading that is missing or makes no sense never counts
// as a full backend, and that every refusal says when to come back.
package admission

import (
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// Config is what an operator may tune of shedding, live.
type Config struct {
	Low, Normal, High float64 // KV usage at which the class is shed (shed.low, shed.normal, shed.high)
	Release           float64 // shedding ends this far below the threshold (shed.release)
	Queue             int     // waiting requests per backend above which low is shed; 0 is off (shed.queue)
}

// DefaultConfig returns the settings' defaults.
func DefaultConfig() Config {
	return Config{Low: 0.85, Normal: 0.95, High: 1.0, Release: 0.05}
}

// Threshold is the usage at which class p is shed.
func (c Config) Threshold(p identity.Priority) float64 {
	switch p {
	case identity.Low:
		return c.Low
	case identity.High:
		return c.High
	default:
		return c.Normal
	}
}

// Load is what is known of one backend.
type Load struct {
	Usage   float64 // share of its KV memory in use, 0 … 1
	Known   bool    // Usage and Waiting come from a reading that still counts
	Waiting int     // requests queued at the backend
}

// The reasons of a [Decision].
const (
	ReasonKV    = "kv_pressure"
	ReasonQueue = "queue"
)

// Decision is the verdict on one class at one pool.
type Decision struct {
	Shed  bool
	Pool  string
	Class identity.Priority
	// Usage is the least KV usage of the backends known, and Threshold what it
	// was compared with; for ReasonQueue both count waiting requests.
	Usage, Threshold float64
	Reason           string        // ReasonKV, ReasonQueue or ""
	RetryAfter       time.Duration // whole seconds, 1 … 30; set by Shedder
}

// Shed decides for one class and one pool.
func Shed(cfg Config, class identity.Priority, pool string, loads []Load, was bool) Decision {
	return Decision{Pool: pool, Class: class}
}

// Shedder is Shed with a memory of what is being shed. The zero value works.
type Shedder struct{}

// Shed decides like the function Shed and remembers.
func (s *Shedder) Shed(cfg Config, class identity.Priority, pool string, loads []Load) Decision {
	return Shed(cfg, class, pool, loads, false)
}

// Limiter is a token bucket per tenant. The zero value works.
type Limiter struct{}

// Allow takes one request of tenant's rpm, or says how long to wait.
func (l *Limiter) Allow(tenant string, rpm int, now time.Time) (wait time.Duration, ok bool) {
	return 0, true
}

// ShedError is the refusal of a request by pressure.
type ShedError struct{ Decision Decision }

// Error tells the pool, its usage and the limit of the class.
func (e *ShedError) Error() string { return "shed" }

// LimitError is the refusal of a request by its tenant's rate.
type LimitError struct {
	Tenant string
	Wait   time.Duration
}

// Error tells the tenant and the wait.
func (e *LimitError) Error() string { return "limited" }
