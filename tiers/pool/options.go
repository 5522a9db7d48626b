package pool

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/pressure"
)

// Options wires a Pool. Either Backends or Discover is set.
type Options struct {
	Name       string
	Model      string
	Backends   []string // base URLs
	Discover   string   // where the backends are found instead, see [discover.New]
	USDPerHour float64  // of one backend
	Priorities bool     // its engines schedule by the priority that a request has (vLLM's --scheduling-policy priority)

	Config   func() choose.Config   // live; nil is choose.DefaultConfig
	Policy   choose.Policy          // instead of Config's, for the lab; called under the pool's lock; nil is none
	Pressure func() pressure.Config // live; nil is pressure.DefaultConfig

	// Open is the breaker's view: true means do not pick. It is asked once per
	// backend and pick, so it must be cheap; nil is never open.
	Open func(backend string) bool
	// Shut is Open without what is kept open for want of others; nil is Open.
	Shut func(backend string) bool
	// Ramp is the share of its turns, 0..1, that a backend may take by the breaker's word,
	// beside its own after a start. It is asked as often as Open; nil is always 1.
	Ramp func(backend string) float64

	// OnCapacity is called whenever a backend may have more free capacity than before: a request
	// ended, or a reading came. It is called often, without the pool's lock, and must be quick;
	// nil is nobody waits.
	OnCapacity func()

	Fleet      Fleet             // the other replicas; nil: there are none
	Index      Index             // nil: what is warm is estimated
	Resolver   discover.Resolver // nil is net.DefaultResolver
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; pools may share one
	Now        func() time.Time      // nil is time.Now
}

// validate refuses what would go wrong later and returns the backends' URLs in
// their one spelling, or where they are found.
func (o Options) validate() ([]string, discover.Source, error) {
	switch {
	case o.Name == "":
		return nil, nil, errors.New("has no name")
	case len(o.Backends) > 0 && o.Discover != "":
		return nil, nil, fmt.Errorf("has both backends and discover %q", o.Discover)
	case len(o.Backends) == 0 && o.Discover == "":
		return nil, nil, errors.New("has neither backends nor discover")
	case o.USDPerHour < 0 || math.IsNaN(o.USDPerHour) || math.IsInf(o.USDPerHour, 0):
		return nil, nil, fmt.Errorf("costs %v USD per hour", o.USDPerHour)
	}
	if o.Discover != "" {
		source, err := discover.New(o.Discover, o.Resolver)
		if err != nil {
			return nil, nil, fmt.Errorf("discover %q: %w", o.Discover, err)
		}
		return nil, source, nil
	}
	var urls []string
	for _, raw := range o.Backends {
		u, err := discover.URL(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("backend %q: %w", raw, err)
		}
		if slices.Contains(urls, u) {
			return nil, nil, fmt.Errorf("backend %q: given twice", raw)
		}
		urls = append(urls, u)
	}
	return urls, nil, nil
}

// withDefaults fills in what is not set, and has Pressure tell what is within its bounds.
func (o Options) withDefaults() Options {
	if o.Config == nil {
		o.Config = choose.DefaultConfig
	}
	live := o.Pressure
	if live == nil {
		live = pressure.DefaultConfig
	}
	o.Pressure = func() pressure.Config { return live().OrDefaults() }
	if o.Open == nil {
		o.Open = func(string) bool { return false }
	}
	if o.Shut == nil {
		o.Shut = o.Open
	}
	if o.Ramp == nil {
		o.Ramp = func(string) float64 { return 1 }
	}
	if o.OnCapacity == nil {
		o.OnCapacity = func() {}
	}
	if o.Fleet == nil {
		o.Fleet = alone{}
	}
	if o.Index == nil {
		o.Index = unindexed{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
