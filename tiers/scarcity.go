package tiers

import (
	"sync"

	"github.com/foregate/foregate/tiers/plan"
)

// scarcity is which routes' targets are short of room, as this replica knows it. The configuration bounds their number.
type scarcity struct {
	mu  sync.Mutex
	all map[scarceRoute]plan.Scarcity
}

// scarceRoute is a route with one of its targets.
type scarceRoute struct{ route, target string }

// look reports whether the target of a request is short of room now. It looks only where that matters.
func (s *scarcity) look(r *Request) bool {
	if r.Config.When != plan.WhenScarce {
		return false
	}
	room, k := r.Target.Room(), scarceRoute{r.Body.Model, r.Target.Name()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[scarceRoute]plan.Scarcity{}
	}
	s.all[k] = s.all[k].Next(room)
	return s.all[k].Scarce
}
