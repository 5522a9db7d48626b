// Package estimate holds what is learned from requests and readings as they come: how fast a
// backend is, how long prompts and answers are, how much of a prompt an engine finds in its
// prefix cache, and what a token costs. All of it forgets exponentially.
//
// The package is pure: it has no clock, no lock and no logger. Its callers bring the time, and
// make one call of a value at a time.
package estimate

import (
	"math"
	"time"
)

// Average is a mean of late samples.
type Average float64

// averageShare is how much one sample moves an average.
const averageShare = 1.0 / 64

// Learn moves the average by a sample.
func (a *Average) Learn(sample float64) { *a += (Average(sample) - *a) * averageShare }

// Flow is a rate over the last seconds. Its zero value has seen nothing.
type Flow struct {
	sum   float64
	at    time.Time
	since time.Time // when it began, after a time without
}

// flowTime is the time constant of forgetting.
const flowTime = 5 * time.Second

// Add says that n came.
func (f *Flow) Add(n float64, now time.Time) {
	if f.since.IsZero() || now.Sub(f.at) > 2*flowTime {
		*f = Flow{since: now}
	}
	f.sum = f.left(now) + n
	f.at = now
}

// PerSecond is the rate; 0 is unknown: in the first second, and where nothing has come for
// so long that what is left is the memory of other times.
func (f *Flow) PerSecond(now time.Time) float64 {
	age := now.Sub(f.since)
	if age < time.Second || now.Sub(f.at) > 2*flowTime {
		return 0
	}
	return f.left(now) / flowTime.Seconds() / (1 - math.Exp(-age.Seconds()/flowTime.Seconds())) // a young sum is not full yet
}

func (f *Flow) left(now time.Time) float64 {
	age := now.Sub(f.at)
	if f.at.IsZero() || age < 0 {
		return f.sum
	}
	return f.sum * math.Exp(-age.Seconds()/flowTime.Seconds())
}
