package admission

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	// maxShedding bounds the memory; routes and pools come from the configuration,
	// so it is never reached.
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
	shedding map[Place]time.Time // when it was last decided so
}

// Place is what is shed: one class of one route at one pool. Thresholds are set
// by route, so what one route remembers must not lower those of another that
// shares its pool.
type Place struct {
	Route, Pool string
	Class       identity.Priority
}

// PoolLoad is the load of one pool that a request could go to: of its backends
// that are up and whose breaker is closed.
type PoolLoad struct {
	Pool  string
	Loads []Load
}

// Admit decides on a request that could go to any of pools, in order of
// preference: it is shed when each of them sheds its class, and the decision
// returned is then the last one's. A pool without a live backend takes nothing, so it
// has no say while another lives: its silence must not keep a full one open.
func (s *Shedder) Admit(cfg Config, route string, class identity.Priority, pools []PoolLoad) Decision {
	live := slices.ContainsFunc(pools, func(p PoolLoad) bool { return len(p.Loads) > 0 })
	var last Decision
	for _, p := range pools {
		if live && len(p.Loads) == 0 {
			continue
		}
		if last = s.Shed(cfg, Place{route, p.Pool, class}, p.Loads); !last.Shed {
			break
		}
	}
	return last
}

// Shed decides like the function [Shed], remembers the outcome, and says when
// to come back.
func (s *Shedder) Shed(cfg Config, at Place, loads []Load) Decision {
	now := s.now()
	s.mu.Lock()
	last, was := s.shedding[at]
	d := Shed(cfg, at.Class, at.Pool, loads, was && now.Sub(last) <= memory)
	s.remember(at, d.Reason == ReasonKV, now) // a long queue must not lower the threshold of usage
	s.mu.Unlock()
	if d.Shed {
		d.RetryAfter = RetryAfter(d, s.random())
	}
	return d
}

// remember keeps only what is being shed for its usage; s.mu is held.
func (s *Shedder) remember(at Place, shed bool, now time.Time) {
	if !shed {
		delete(s.shedding, at)
		return
	}
	if s.shedding == nil {
		s.shedding = map[Place]time.Time{}
	}
	if _, known := s.shedding[at]; known || len(s.shedding) < maxShedding {
		s.shedding[at] = now
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
