package pool

import (
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

// identity is what is known of the kind of a backend's engine.
type identity struct {
	kind  dialect.Kind    // in force: as configured, or else as it answered; "" is not known yet
	found dialect.Finding // what its answers told

	asked   bool   // it has answered
	life    uint64 // in which it did
	doubted bool   // since then it was down, and answers otherwise than its kind
	fails   int    // questions in a row that could not be asked
	next    time.Time

	unmeasured time.Time // when it last had no /metrics, though a flag could turn them on; zero: it has them
	checked    time.Time // when an outsider's connections were last tried
}

// The pauses after questions that could not be asked: doubling.
const (
	minIdentifyPause = time.Second
	maxIdentifyPause = time.Minute
)

// isDue reports whether the engine must be asked for its kind: once in each of its lives, and while it is down only if
// there is a doubt. One that is configured as an outsider is asked nothing.
func (i *identity) isDue(configured dialect.Kind, life uint64, now time.Time) bool {
	return configured != dialect.OpenAI && (!i.asked || i.life != life || i.doubted) && !now.Before(i.next)
}

// doubt notes that a backend that is down answers, but has no health where its kind has it: another kind of engine may
// have come.
func (i *identity) doubt(now time.Time) {
	if !i.doubted && i.fails > 0 {
		i.fails, i.next = 0, now
	}
	i.doubted = true
}

// isUnasked reports whether the kind is not known because the engine was not asked yet.
func (i *identity) isUnasked() bool { return i.kind == "" && !i.asked && i.fails == 0 }

// failed notes that the engine could not be asked.
func (i *identity) failed(now time.Time) {
	i.fails++
	i.next = now.Add(min(minIdentifyPause<<min(i.fails-1, 10), maxIdentifyPause))
}

// answer is what the answers of an engine told.
type answer struct {
	found dialect.Finding
	life  uint64 // in which it was asked
	at    time.Time
}

// answered notes what the engine's answers told. A configured kind stays in force. So does the last kind that was found,
// if nothing is now. A doubt that they did not confirm is not looked into again at once.
func (i *identity) answered(a answer, configured dialect.Kind) {
	f, next := a.found, time.Time{}
	if i.doubted && (f.Kind == "" || f.Kind == i.kind) {
		next = a.at.Add(maxIdentifyPause)
	}
	i.found, i.asked, i.life, i.doubted, i.fails, i.next = f, true, a.life, false, 0, next
	if configured == "" && f.Kind != "" {
		i.kind = f.Kind
	}
}

// contradiction returns how the answers contradict the configured kind; "" if they do not.
func (i *identity) contradiction(pool string, configured dialect.Kind) string {
	if configured == "" || i.found.Kind == "" || i.found.Kind == configured {
		return ""
	}
	return fmt.Sprintf("pools.%s.engine is %s, but it answers as %s: %s", pool, configured, i.found.Kind, i.found.By)
}

const (
	// remeasureAfter is the time after which /metrics that were not there are asked for again.
	remeasureAfter = 30 * time.Second
	// checkOutsider is the shortest time between two connections to an outsider that was down.
	checkOutsider = 5 * time.Second
)

// readsMetrics reports whether the engine's load is read now.
func (i *identity) readsMetrics(now time.Time) bool {
	return dialect.Of(i.kind).Load.Reads() && (i.unmeasured.IsZero() || now.Sub(i.unmeasured) >= remeasureAfter)
}

// tellsLoad reports whether readings are due: the engine's kind has /metrics, and they were there when last asked for.
func (i *identity) tellsLoad() bool { return dialect.Of(i.kind).Load.Reads() && i.unmeasured.IsZero() }

// hint says how the engine could tell its load; "" if it does, or never can.
func (i *identity) hint() string {
	if i.unmeasured.IsZero() {
		return ""
	}
	return "its load is not known: start it with " + dialect.Of(i.kind).Load.Flag
}
