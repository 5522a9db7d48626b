package pool

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Price is what a pool costs.
type Price struct {
	USDPerHour       float64            // rent of one backend; 0 is unknown
	PrefillPerSecond float64            // prompt tokens that a full one computes; 0: learned
	DecodePerSecond  float64            // answer tokens that a full one generates; 0: learned
	Tokens           economy.TokenPrice // of hosted and of free backends, instead
}

// Options configure a Pool. Set either Backends or Discover.
type Options struct {
	Name       string
	Model      string
	Backends   []string // base URLs
	Discover   string   // a source of backends instead, see [discover.New]
	HTTPS      bool     // what is discovered is reached by https
	Price      Price
	Engine     dialect.Kind // of the backends; Auto or "": each is asked
	External   bool         // hosted servers that are not the operator's: they are asked for nothing but answers
	Priorities bool         // the engines use request priorities (vLLM's --scheduling-policy priority)

	Credentials *credentials.Live // what is shown to the backends; nil: nothing

	Policy         func() string        // of choosing, live: [PolicyFit] or [PolicyRoundRobin]; nil: PolicyFit
	ScrapeInterval func() time.Duration // between two scrapes of one backend, live; nil: pressure.Interval
	ScrapeTimeout  time.Duration        // of one question to a backend; 0: pressure.Timeout

	// Open reports whether a backend's breaker is open. It runs once per backend and pick, so it must be cheap; nil:
	// never open.
	Open func(backend string) bool
	// Shut is Open without the exception for the last usable backends; nil: the same as Open.
	Shut func(backend string) bool
	// Ramp is the share of traffic, 0..1, that the breaker grants a backend after it was open. It runs as often as
	// Open; nil: always 1.
	Ramp func(backend string) float64

	// OnCapacity is called whenever a backend may have more free capacity than before: after a request's end and after
	// each reading. It is called often, without the pool's lock, and must be fast; may be nil.
	OnCapacity func()

	Fleet      Fleet             // the other replicas; nil: none
	Resolver   discover.Resolver // nil is net.DefaultResolver
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: no metrics; pools may share one
	Now        func() time.Time      // nil is time.Now
}

// validate checks the options and returns the backends' normalized URLs, or the source of backends.
func (o Options) validate() ([]string, *discover.Source, error) {
	if (len(o.Backends) == 0) == (o.Discover == "") {
		return nil, nil, errors.New("needs backends or discover, one of them")
	}
	if o.Discover != "" {
		source, err := discover.New(o.Discover, discover.Options{Resolver: o.Resolver, HTTPS: o.HTTPS})
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
		if urls = append(urls, u); len(distinct(urls)) < len(urls) {
			return nil, nil, fmt.Errorf("backend %q: its id, %s, is that of another", raw, idOf(u))
		}
	}
	return urls, nil, nil
}

// configuredEngine returns the kind that all backends have by configuration, "" if they are asked.
func (o *Options) configuredEngine() dialect.Kind {
	if o.Engine == dialect.Auto {
		return ""
	}
	return o.Engine
}

// withDefaults sets missing options.
func (o Options) withDefaults() Options {
	if o.Policy == nil {
		o.Policy = func() string { return PolicyFit }
	}
	if o.ScrapeInterval == nil {
		o.ScrapeInterval = func() time.Duration { return pressure.Interval }
	}
	o.ScrapeTimeout = cmp.Or(o.ScrapeTimeout, pressure.Timeout)
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
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Fleet is the connection to the other replicas. Their data comes in by [Pool.ReceiveReading], [Pool.ReceivePlacements]
// and [Pool.ReceiveDrains]. Its methods must not block.
type Fleet interface {
	Replicas() int                                    // number of replicas, this one included
	Sharing() bool                                    // whether the replicas exchange data now
	Mine(pool, backend string) bool                   // whether this replica scrapes the backend for all
	Publish(pool, backend string, r pressure.Reading) // shares a new reading
	Place(pool string, placements []prefix.Placement) // shares placements of prompts; said is not kept
}

// alone is the Fleet of a single replica: it scrapes every backend itself.
type alone struct{}

func (alone) Replicas() int                            { return 1 }
func (alone) Sharing() bool                            { return true }
func (alone) Mine(string, string) bool                 { return true }
func (alone) Publish(string, string, pressure.Reading) {}
func (alone) Place(string, []prefix.Placement)         {}
