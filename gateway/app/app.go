// Package app assembles one replica of the gateway from a configuration, and runs it. Start at [New]: it
// makes the components of a replica in order of their dependencies. Nothing runs before [App.Start]. Several
// replicas can run in one process: there are no globals.
package app

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/console"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/upstream"
)

// Options describe a replica. File is required. Without Stores it shares nothing with other replicas and
// stores no answers.
type Options struct {
	File         *config.File     // at the start
	Path         string           // of the file, which is read again when it changes; "" is never
	Hangups      <-chan os.Signal // each has the files read again at once; nil: none comes
	Stores       stores.Stores
	Listener     net.Listener // instead of File.Listen
	Admin        string       // address of the admin listener; "" is none
	Tokens       []byte       // operators' tokens, instead of File.AdminTokensFile
	MaxBodyBytes int64        // memory of all request bodies together; 0 is the gateway's default
	Version      string       // of the program, for the status and for traces
	Logger       zerolog.Logger
	Registerer   prometheus.Registerer // nil: no metrics
	Gatherer     prometheus.Gatherer   // metrics for the admin listener; nil: neither metrics nor console
}

// App is one replica: the gateway and its components.
type App struct {
	Options
	began     time.Time
	routing   atomic.Pointer[routing]
	reloading sync.Mutex                // one replacement of routing at a time; guards the next two, and servedPool.end
	retired   map[*servedPool]time.Time // that routing no longer has, with their last requests, and since when
	poolsRun  bool                      // pools are started when they are made
	files     *files.Watcher
	Settings  *settings.Watcher
	Breakers  *breaker.Set
	Fleet     *fleet.Fleet
	queues    *admission.Queues
	Ledger    *ledger.Ledger
	Cache     *cache.Store

	Conversations *conversations.Store // nil stores no responses
	Generations   *tiers.Generations
	salt          func(tenant string) string
	prober        *probe.Prober
	Evidence      *evidence.Store
	refits        *refit.Refitter
	tracer        *tracing.Tracer // nil without tracing
	upstream      *upstream.Client
	cascade       *tiers.Cascade
	identity      *identity.Resolver
	listeners     listeners
	console       *console.Console   // nil is none
	operators     *gateway.Operators // nil: no tokens are configured
	gateway       *gateway.Gateway

	running  []*component // what Start has started, in that order
	stopping sync.Once
}

// New makes a replica. It reads the files that the configuration names, and the live settings once, so that
// the first request follows them. Errors come from the configuration or from such a file.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{Options: o, began: time.Now(), retired: map[*servedPool]time.Time{}}
	a.routing.Store(&routing{file: o.File})
	for _, step := range []func() error{ // each needs some of those above
		a.makeFiles, func() error { return a.makeSettings(ctx) }, a.makeFleet, a.makePools, a.makeLedger, a.makeCache, a.makeEngines,
		a.makeEvidence, a.makeTracer, a.makeCascade, a.makeIdentity, a.makeListeners, a.makeGateway, a.watchConfig,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// global returns the live settings of the process.
func (a *App) global() *settings.Values { return a.Settings.Snapshot().Global() }

// live returns the live settings of a route.
func (a *App) live(route string) *settings.Values { return a.Settings.Snapshot().Route(route) }

// register registers a collector of metrics, if there are any.
func (a *App) register(c prometheus.Collector) {
	if a.Registerer != nil {
		a.Registerer.MustRegister(c)
	}
}

// registerGauge registers a gauge.
func (a *App) registerGauge(name, help string, value func() float64) {
	a.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}
