package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/refit"
)

// Limits bound what the gateway accepts. Zero fields take the defaults.
type Limits struct {
	Body     int64 // bytes of a request body; 4 MiB
	Header   int   // bytes of a request's headers; 16 KiB
	InFlight int   // requests in progress; 4096
	Bodies   int64 // bytes of all bodies in memory; 256 MiB
	Conns    int   // open connections of the public listener, idle ones too; 20,000
}

// Drain says how the gateway stops. Zero means at once.
type Drain struct {
	Delay time.Duration // not ready, but still accepting, so that load balancers notice
	Grace time.Duration // then, for streams to finish
}

// Options wires a Gateway: the components that it calls, and its own limits. Their creator runs the components. Cascade,
// Identity, Settings, Ledger, Replica, Evidence and Refits are required.
type Options struct {
	Version  string             // of the program
	Listen   string             // address of the public listener
	Listener net.Listener       // instead of Listen
	TLS      func() *tls.Config // of a new connection at the public listener, with HTTP/2; nil is plain HTTP
	Admin    string             // address of the admin listener; "" is none
	AdminTLS func() *tls.Config // of a new connection at the admin listener; nil is plain HTTP

	Cascade       *tiers.Cascade
	Identity      *identity.Resolver
	Settings      *settings.Watcher
	Ledger        *ledger.Ledger             // of tenants' limits, budgets and usage
	Cache         *cache.Store               // of answers; nil is none
	Generations   *tiers.Generations         // nil joins no requests
	Conversations *conversations.Store       // stored responses; nil stores none
	Tracer        *tracing.Tracer            // nil: only forwards a client's traceparent
	Salt          func(tenant string) string // separates tenants in prefix caches; nil does not
	Forward       []string                   // paths that are forwarded to the target

	// What the admin listener serves.
	Replica   Replica
	Evidence  *evidence.Store // what audits have shown
	Refits    *refit.Refitter
	Operators *Operators          // who may act; nil: pages are read-only, and the listener must be on loopback
	Console   http.Handler        // served under /console/; nil is none
	Gatherer  prometheus.Gatherer // served under /metrics; nil is none

	Limits Limits
	Scan   openai.Limits // zero fields take those of openai.DefaultLimits
	Drain  Drain

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Gateway is one replica's HTTP server.
type Gateway struct {
	opts     Options
	log      zerolog.Logger
	metrics  *metrics
	bodies   *bodies
	draining atomic.Bool
	pipeline *tiers.Pipeline
	guard    guard
	receipts receipts.Ring

	public, admin listener
	streams       context.Context // parent context of all requests; ends after the grace period
	cutStreams    context.CancelCauseFunc
	serving       sync.WaitGroup
	stopOnce      sync.Once
	failed        chan error
}

// errDraining is the reason why requests are cut when the grace period is over.
var errDraining = errors.New("gateway is draining")

// New wires a gateway; it does not listen before Start.
func New(o Options) (*Gateway, error) {
	if o.Cascade == nil || o.Identity == nil || o.Settings == nil || o.Ledger == nil || o.Replica == nil || o.Evidence == nil || o.Refits == nil {
		return nil, errors.New("gateway: Options need Cascade, Identity, Settings, Ledger, Replica, Evidence and Refits")
	}
	asked := o.Limits.Body
	if o.Limits = o.Limits.withDefaults(); o.Limits.Body < asked {
		o.Logger.Warn().Int64("asked", asked).Int64("most", o.Limits.Body).Msg("larger bodies than memory allows are refused, whatever limits.body_bytes says")
	}
	if allow := o.Scan.Allow; o.Scan.Depth == 0 {
		o.Scan = openai.DefaultLimits()
		o.Scan.Allow = allow
	}
	g := &Gateway{
		opts: o, log: o.Logger, metrics: newMetrics(o.Registerer),
		guard:  guard{operators: o.Operators},
		bodies: newBodies(o.Limits, o.Registerer),
		failed: make(chan error, 2),
	}
	g.metrics.readiness(o.Registerer, g)
	g.streams, g.cutStreams = context.WithCancelCause(context.Background())
	g.pipeline = g.newPipeline()
	g.public = g.newListener(g.routes(), o.TLS)
	g.public.most = g.opts.Limits.Conns
	countConns(g.public.server, g.metrics.conns)
	g.public.server.BaseContext = func(net.Listener) context.Context { return g.streams }
	g.admin = g.newListener(g.withDeadlines(g.adminRoutes()), o.AdminTLS)
	g.admin.most, g.admin.server.IdleTimeout = maxAdminConns, maxAdminIdle
	return g, nil
}

// newPipeline wires the request pipeline.
func (g *Gateway) newPipeline() *tiers.Pipeline {
	o := tiers.PipelineOptions{
		Cascade: g.opts.Cascade, Ledger: g.opts.Ledger, Generations: g.opts.Generations,
		HighShare:   func() float64 { return g.opts.Settings.Snapshot().Global().Limit.HighPriorityShare },
		CacheConfig: func(route string) cache.Config { return g.opts.Settings.Snapshot().Route(route).Cache },
		Salt:        g.opts.Salt, IsShed: func(err error) bool { return errors.Is(err, admission.ErrShed) }, Base: g.streams,
		OnPanic: func(id string, value any) {
			g.metrics.panics.Inc()
			g.log.Error().Str("request_id", id).Interface("panic", value).Bytes("stack", debug.Stack()).Msg("making an answer panicked")
		},
	}
	if g.opts.Cache != nil {
		o.Store = g.opts.Cache
	}
	return tiers.NewPipeline(o)
}

func (l Limits) withDefaults() Limits {
	l.Body, l.Header, l.InFlight = cmp.Or(l.Body, 4<<20), cmp.Or(l.Header, 16<<10), cmp.Or(l.InFlight, 4096)
	l.Conns, l.Bodies = cmp.Or(l.Conns, 20_000), cmp.Or(l.Bodies, 256<<20)
	l.Body = min(l.Body, max(1, l.Bodies/2)) // a larger body could never be admitted
	return l
}

// Start listens and serves. It returns when both listeners are open.
func (g *Gateway) Start() error {
	if err := g.listen(); err != nil {
		return err
	}
	g.serving.Go(func() { g.serve(g.public) })
	if g.admin.ln != nil {
		g.serving.Go(func() { g.serve(g.admin) })
	}
	return nil
}

// Failed delivers the error of a listener that failed.
func (g *Gateway) Failed() <-chan error { return g.failed }

// CountPanic counts a panic that was recovered outside of the HTTP surface.
func (g *Gateway) CountPanic() { g.metrics.panics.Inc() }

// Addr is the public listener's address.
func (g *Gateway) Addr() net.Addr { return g.public.addr }

// AdminAddr is the admin listener's address, nil when there is none.
func (g *Gateway) AdminAddr() net.Addr { return g.admin.addr }

// cutBefore is how long before the end of the grace period the remaining streams are told and cut.
const cutBefore = 2 * time.Second

// lastWords is how long streams may tell their clients that they are cut, if no grace period is left.
const lastWords = 500 * time.Millisecond

// Stop ends the gateway. First it reports not ready and accepts for the drain delay. Then it only finishes
// requests in progress. Shortly before the end of the grace period it cuts the rest with an error event. It
// returns when everything has ended. It is idempotent; ctx shortens it.
func (g *Gateway) Stop(ctx context.Context) {
	g.stopOnce.Do(func() { g.stop(ctx) })
}

func (g *Gateway) stop(ctx context.Context) {
	g.draining.Store(true)
	if g.opts.Drain.Delay > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(g.opts.Drain.Delay):
		}
	}
	grace := g.opts.Drain.Grace
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	cut := time.AfterFunc(max(grace-cutBefore, grace/2), func() { g.cutStreams(errDraining) })
	defer cut.Stop()
	g.public.shutdown(ctx, func() { g.cutStreams(errDraining) })
	g.admin.close() // scrapes can be repeated
	g.serving.Wait()
	g.cutStreams(errDraining)
}
