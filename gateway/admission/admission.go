// Package admission decides whether a request may enter: by its tenant's rate
// ([Limiter]) and by the pressure on the pool it would go to ([Shed],
// [Shedder]). Start at [Shed], a function of values; the two types beside it
// only remember.
//
// It guarantees that a reading that is missing or makes no sense never counts
// as a full backend nor as an idle one, and that every refusal says when to
// come back.
package admission

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// Config is what an operator may tune of shedding, live.
type Config struct {
	Low, Normal, High float64 // KV usage at which the class is shed, 0 … 1; 0 sheds all of it (shed.low, shed.normal, shed.high)
	Release           float64 // shedding ends this far below the threshold (shed.release)
	Queue             int     // waiting requests per backend above which low is shed; 0 is off (shed.queue)
}

// DefaultConfig holds the values that are used where none are set.
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

// known tells whether the load says something. NaN compares false with every
// threshold and would keep a full pool open; it is no reading.
func (l Load) known() bool { return l.Known && l.Usage >= 0 && l.Usage <= 1 }

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

	// Usage is the least KV usage of the backends known, 0 when there is none,
	// and Threshold what it was compared with. With ReasonQueue both count
	// waiting requests instead.
	Usage, Threshold float64
	Reason           string        // ReasonKV or ReasonQueue, "" when not shed
	RetryAfter       time.Duration // whole seconds, 1 … 30; set by Shedder
}

// String is the decision as X-Shed-Reason tells it, "" when nothing is shed.
func (d Decision) String() string {
	if !d.Shed {
		return ""
	}
	return d.Reason + ";pool=" + d.Pool + ";usage=" + short(d.Usage) + ";threshold=" + short(d.Threshold)
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

// Shed decides whether class may go to pool, whose backends carry loads. It
// sheds when every backend whose usage is known is at or above the class's
// threshold; while the class was being shed, the threshold is lower by Release.
// A backend of unknown usage has no say, and with none known nothing is shed:
// what cannot be read must neither close a pool nor hide a full one. Only a
// threshold of 0, the operator's kill switch, is obeyed whatever is known.
func Shed(cfg Config, class identity.Priority, pool string, loads []Load, was bool) Decision {
	d := Decision{Pool: pool, Class: class, Threshold: cfg.Threshold(class)}
	if was {
		d.Threshold = math.Max(0, d.Threshold-cfg.Release)
	}
	usage, waiting, known := least(loads)
	d.Usage = usage
	if !known && cfg.Threshold(class) > 0 {
		return d
	}
	if usage >= d.Threshold {
		d.Shed, d.Reason = true, ReasonKV
		return d
	}
	if class == identity.Low && cfg.Queue > 0 && waiting > cfg.Queue {
		d.Shed, d.Reason = true, ReasonQueue
		d.Usage, d.Threshold = float64(waiting), float64(cfg.Queue)
	}
	return d
}

// least is the lowest usage and the shortest queue among the loads known: if
// these are above a limit, all are.
func least(loads []Load) (usage float64, waiting int, known bool) {
	for _, l := range loads {
		if !l.known() {
			continue
		}
		if !known {
			usage, waiting, known = l.Usage, l.Waiting, true
			continue
		}
		usage, waiting = min(usage, l.Usage), min(waiting, l.Waiting)
	}
	return usage, waiting, known
}

// Bounds of Retry-After, in seconds.
const (
	retryMin    = 1
	retryMax    = 30
	retrySpread = 5 // over how many seconds the callers of a barely full pool are spread
)

// RetryAfter is when to come back after d: whole seconds from 1 up to a bound
// that grows from 5 s at the threshold to 30 s when there is no room left, or
// when the class is closed altogether. r is
// uniform in 0 … 1 and spreads the callers, so that they do not all return in
// the same second.
func RetryAfter(d Decision, r float64) time.Duration {
	severity := 1.0
	if d.Reason == ReasonQueue {
		severity = (d.Usage - d.Threshold) / math.Max(d.Threshold, 1)
	} else if d.Threshold > 0 && d.Threshold < 1 {
		severity = (d.Usage - d.Threshold) / (1 - d.Threshold)
	}
	bound := retrySpread + math.Min(math.Max(severity, 0), 1)*(retryMax-retrySpread)
	seconds := retryMin + math.Floor(math.Min(math.Max(r, 0), 1)*bound)
	if math.IsNaN(seconds) { // r or the usage was
		return retryMax * time.Second
	}
	return time.Duration(math.Min(seconds, retryMax)) * time.Second
}
