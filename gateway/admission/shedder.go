package admission

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	// maxShedding bounds the memory; pools come from the configuration, so it is
	// never reached.
	maxShedding = 4096
	// memory is how long "was shedding" counts without a request that renews
	// it. Every caller that was refused has been told to come back by then.
	memory = retryMax * time.Second
)

// Shedder is [Shed] with a memory of which classes are being shed, for the
// hysteresis. It is safe for concurrent use and the zero value works.
type Shedder struct {
	Rand func() float64   // uniform in [0, 1), for the spread of Retry-After; nil is math/rand/v2
	Now  func() time.Time // nil is time.Now

	mu       sync.Mutex
	shedding map[poolClass]time.Time // when it was last decided so
}

// poolClass is what is shed: one class at one pool.
type poolClass struct {
	pool     string
	priority identity.Priority
}

// Shed decides like the function [Shed], remembers the outcome, and says when
// to come back.
func (s *Shedder) Shed(cfg Config, priority identity.Priority, pool string, loads []Load) Decision {
	now, key := s.now(), poolClass{pool, priority}
	s.mu.Lock()
	last, was := s.shedding[key]
	d := Shed(cfg, priority, pool, loads, was && now.Sub(last) <= memory)
	s.remember(key, d.Reason == ReasonKV, now) // a long queue must not lower the threshold of usage
	s.mu.Unlock()
	if d.Shed {
		d.RetryAfter = RetryAfter(d, s.random())
	}
	return d
}

// remember keeps only what is being shed for its usage; s.mu is held.
func (s *Shedder) remember(key poolClass, shed bool, now time.Time) {
	if !shed {
		delete(s.shedding, key)
		return
	}
	if s.shedding == nil {
		s.shedding = map[poolClass]time.Time{}
	}
	if _, known := s.shedding[key]; known || len(s.shedding) < maxShedding {
		s.shedding[key] = now
	}
}

func (s *Shedder) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Shedder) random() float64 {
	if s.Rand == nil {
		return rand.Float64()
	}
	return s.Rand()
}
