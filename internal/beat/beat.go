// Package beat has the loops of a process wake together: waking an idle process costs more than what most loops do then.
package beat

import (
	"math/rand/v2"
	"time"
)

// phase keeps replicas from waking together.
var phase = rand.N(time.Hour)

// Next is the time until the next beat of a period, at least a quarter of the period. Beats of a period are beats of its divisors, too.
func Next(period time.Duration) time.Duration {
	left := period - (time.Duration(time.Now().UnixNano())+phase)%period
	if left < period/4 { // a timer that fired early, or a loop that was late
		left += period
	}
	return left
}
