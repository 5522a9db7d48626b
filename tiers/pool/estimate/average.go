// Package estimate learns from requests and readings: a backend's speed, the lengths of prompts and answers, the hit rate of
// the prefix cache, and the cost of a token. These values decay exponentially.
//
// The package is pure: it has no clock, no lock and no logger. Callers pass the time and serialize the calls.
package estimate

import (
	"math"
	"time"
)

// Average is an exponentially weighted mean.
type Average float64

// averageShare is the weight of a new sample.
const averageShare = 1.0 / 64

// Learn adds a sample.
func (a *Average) Learn(sample float64) { *a += (Average(sample) - *a) * averageShare }

// Flow is a rate over the last seconds. The zero value is ready.
type Flow struct {
	sum   float64
	at    time.Time
	since time.Time // when it began, after a time without
}

// flowTime is the time constant of the decay.
const flowTime = 5 * time.Second

// Add counts n at time now.
func (f *Flow) Add(n float64, now time.Time) {
	if f.since.IsZero() || now.Sub(f.at) > 2*flowTime {
		*f = Flow{since: now}
	}
	f.sum = f.decayed(now) + n
	f.at = now
}

// PerSecond returns the rate; 0 means unknown: in the first second, and after a long time without events.
func (f *Flow) PerSecond(now time.Time) float64 {
	age := now.Sub(f.since)
	if age < time.Second || now.Sub(f.at) > 2*flowTime {
		return 0
	}
	return f.decayed(now) / flowTime.Seconds() / (1 - math.Exp(-age.Seconds()/flowTime.Seconds())) // corrects for a sum younger than the time constant
}

func (f *Flow) decayed(now time.Time) float64 {
	age := now.Sub(f.at)
	if f.at.IsZero() || age < 0 {
		return f.sum
	}
	return f.sum * math.Exp(-age.Seconds()/flowTime.Seconds())
}
