package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/authbackoff"
	"github.com/foregate/foregate/gateway/conns"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/gateway/operator"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/gateway/upload"
	"github.com/foregate/foregate/panics"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
)

// BackgroundTask is a background task that the gateway owns: it is started with the
// gateway and ended, by its context, when the gateway stops.
type BackgroundTask struct {
	Name string
	Run  func(context.Context) error
}

// Model is one route as GET /v1/models lists it.
type Model struct{ ID string }

// Limits bound what the gateway takes in. Zero fields take the defaults.
type Limits struct {
	Body     int64 // bytes of a request body; 4 MiB
	Header   int   // bytes of a request's headers; 16 KiB
	InFlight int   // requests under way, and bodies that are coming beside them; 4096
	Bodies   int64 // bytes of all bodies in memory; 256 MiB

	Conns           int            // open client connections, idle ones too; 16384
	ConnsPerAddress int            // of those, from one address that is no balancer's; half of Conns
	Balancers       []netip.Prefix // addresses whose connections carry many clients
}

// Drain says how the gateway stops. Zero is at once.
type Drain struct {
	Delay time.Duration // not ready, but still accepting, so that load balancers notice
	Grace time.Duration // for streams to finish after that
}

// Options wires a Gateway.
type Options struct {
	Listen    string        // address of the public listener
	Listener  net.Listener  // instead of Listen
	Admin     string        // address of the admin listener; "" is none
	Operators *operator.Set // who may do something there, run by whoever made it; nil: pages only show, and the listener must be on loopback
	Console   http.Handler  // served under /console/ there; nil is none

	Cascade        *tiers.Cascade
	Models         []Model
	Forward        []string // paths that pass through to the target
	Identity       *identity.Resolver
	Limiter        *limits.Limiter     // run by whoever made it; nil is one for this replica alone
	HighShare      func() float64      // of a tenant's requests per minute, what may have priority high, live; nil is 0.2, 0 is all
	Routes         func() []RouteState // how each route stands, in the order of the configuration; nil is ready always
	Fleet          Fleet               // served under /admin/ on the admin listener; nil is none
	Inspector      Inspector           // served under /admin/status and /admin/settings; nil is none
	SettingsEditor SettingsEditor      // where operators change settings, served under /admin/settings; nil is none
	Tenants        func() []TenantView // those that are listed now, for /admin/tenants; nil is none
	LostSettings   func() int          // settings that Redis has lost, which /readyz tells beside; nil tells nothing
	RedisLevel     func() string       // how much Redis there is, which /readyz tells beside; nil tells nothing
	Background     []BackgroundTask

	Generations  *cache.Generations                                             // joins identical requests, run by whoever made it; nil joins none
	Salt         func(tenant string) string                                     // keeps tenants apart in the engines' prefix caches; nil does not
	Cache        *cache.Store                                                   // run by whoever made it; nil is none
	CacheConfig  func(route string) cache.Config                                // live; nil with no Cache
	ServedModels func(route string) (draft, target string)                      // model and revision of a route's pools, for the cache's keys
	Purge        func(ctx context.Context, s cache.Scope) (all bool, err error) // cache.Purge; nil where no Redis keeps answers
	Risk         func(ctx context.Context) ([]RiskView, error)                  // what audits have shown, served under /admin/risk; nil is none
	Tracer       Tracer                                                         // nil passes a client's traceparent on, and that is all

	Timeouts     func(route string) Timeouts // live; nil is DefaultTimeouts
	ReceiptShare func() float64              // of the receipts, what is written to the log, 0 … 1, live; nil is none

	Limits Limits
	Scan   openai.Limits               // zero takes openai.DefaultLimits
	Allow  func(route string) []string // fields that a route's clients may send beyond what all may, as openai.Limits.Allow; nil is none
	Drain  Drain

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Gatherer   prometheus.Gatherer   // served under /metrics; nil is none
	Now        func() time.Time      // by which limits and failures to authenticate are counted; nil is time.Now
}

// Gateway serves one replica.
type Gateway struct {
	opts         Options
	log          zerolog.Logger
	metrics      *metrics
	uploads      *upload.Gate
	draining     atomic.Bool
	pipeline     *pipeline.Pipeline
	guard        guard
	tenants      *tenants
	authFailures *authbackoff.Table // of authentication
	receipts     receipts

	public, admin listener
	streams       context.Context // of all requests; ended when the grace is over
	cutStreams    context.CancelCauseFunc
	tasksCtx      context.Context
	stopTasks     context.CancelFunc
	background    sync.WaitGroup
	stopOnce      sync.Once
	failed        chan error
}

// listener is one of the two ways in: a server, its connections and what it listens
// on, nil before Start and when the door stays shut.
type listener struct {
	server *http.Server
	conns  *conns.Table
	ln     net.Listener
	addr   net.Addr
}

// open starts listening on addr, or takes ln when it is given.
func (d *listener) open(ctx context.Context, addr string, ln net.Listener) error {
	if ln == nil {
		var lc net.ListenConfig
		var err error
		if ln, err = lc.Listen(ctx, "tcp", addr); err != nil {
			return err
		}
	}
	d.ln, d.addr = d.conns.Listen(ln), ln.Addr()
	return nil
}

// errDraining is why requests are cut when the grace is over.
var errDraining = errors.New("gateway is draining")

// New wires a gateway; nothing is listened on before Start.
func New(o Options) (*Gateway, error) {
	if o.Cascade == nil || o.Identity == nil {
		return nil, errors.New("gateway: Options need a Cascade and an Identity")
	}
	asked := o.Limits.Body
	if o.Limits = o.Limits.withDefaults(); o.Limits.Body < asked {
		o.Logger.Warn().Int64("asked", asked).Int64("most", o.Limits.Body).Msg("larger bodies than memory allows are refused, whatever limits.body_bytes says")
	}
	if o.Scan.Depth == 0 {
		o.Scan = openai.DefaultLimits()
	}
	if o.Allow != nil {
		o.Scan.Allow = o.Allow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Limiter == nil {
		o.Limiter = limits.New(limits.Options{Registerer: o.Registerer, Now: o.Now})
	}
	g := &Gateway{
		opts: o, log: o.Logger, metrics: newMetrics(o.Registerer),
		guard: guard{operators: o.Operators}, tenants: newTenants(o.Tenants),
		uploads:      newUploads(o.Limits, o.Registerer),
		authFailures: authbackoff.New(authbackoff.Options{Registerer: o.Registerer, Now: o.Now}),
		failed:       make(chan error, 2),
	}
	g.metrics.readiness(o.Registerer, g)
	g.streams, g.cutStreams = context.WithCancelCause(context.Background())
	g.tasksCtx, g.stopTasks = context.WithCancel(context.Background())
	g.pipeline = g.newPipeline()
	l := g.opts.Limits
	g.public = g.newListener(g.routes(), conns.Options{Listener: "public", Max: l.Conns, MaxPerAddress: l.ConnsPerAddress, Balancers: l.Balancers})
	g.public.server.BaseContext = func(net.Listener) context.Context { return g.streams }
	g.admin = g.newListener(g.adminRoutes(), conns.Options{Listener: "admin", Max: maxAdminConns, MaxPerAddress: maxAdminConns / 2})
	return g, nil
}

// newPipeline wires what answers requests.
func (g *Gateway) newPipeline() *pipeline.Pipeline {
	o := pipeline.Options{
		Cascade: g.opts.Cascade, Limiter: g.opts.Limiter, HighShare: g.opts.HighShare, Generations: pipeline.Shared(g.opts.Generations),
		CacheConfig: g.opts.CacheConfig, ServedModels: g.opts.ServedModels, Salt: g.opts.Salt, WouldFailAgain: wouldFailAgain, Base: g.streams,
		OnPanic: func(id string, value any) {
			g.metrics.panics.Inc()
			g.log.Error().Str("request_id", id).Interface("panic", value).Bytes("stack", debug.Stack()).Msg("making an answer panicked")
		},
	}
	if g.opts.Cache != nil {
		o.Store = g.opts.Cache
	}
	return pipeline.New(o)
}

func (l Limits) withDefaults() Limits {
	if l.Body == 0 {
		l.Body = 4 << 20
	}
	if l.Header == 0 {
		l.Header = 16 << 10
	}
	if l.InFlight == 0 {
		l.InFlight = 4096
	}
	if l.Conns == 0 {
		l.Conns = 16384
	}
	if l.ConnsPerAddress == 0 {
		l.ConnsPerAddress = max(l.Conns/2, 1)
	}
	if l.Bodies == 0 {
		l.Bodies = 256 << 20
	}
	l.Body = min(l.Body, max(1, l.Bodies/2)) // a larger one could never come
	return l
}

// newUploads shares the connections out: a quarter of them may be bodies that are coming, the rest requests under
// way. So one tenant, whose share of each is two thirds, leaves connections to others.
func newUploads(l Limits, reg prometheus.Registerer) *upload.Gate {
	return upload.New(upload.Options{
		Uploads: max(1, min(l.InFlight, l.Conns/4)), Requests: max(1, min(l.InFlight, l.Conns-l.Conns/4)), Bytes: l.Bodies, Registerer: reg,
	})
}

// maxAdminConns is how many connections operators, probes and scrapes may have open. They have
// places of their own, whatever clients hold, and one address has half of them, so that probes get in whatever it
// holds.
const maxAdminConns = 64

// newListener makes an http.Server with the limits of the front door. There is no
// ReadTimeout and no WriteTimeout, because answers are streams; the body's
// reading and every write have rolling deadlines of their own.
func (g *Gateway) newListener(h http.Handler, o conns.Options) listener {
	o.MaxIdle = 75 * time.Second // longer than the load balancer's 60 s, so that it closes first
	o.Registerer = g.opts.Registerer
	d := listener{conns: conns.New(o), server: &http.Server{
		Handler:           g.withDeadlines(h),
		ReadHeaderTimeout: 5 * time.Second,
		MaxHeaderBytes:    g.opts.Limits.Header,
		ErrorLog:          newServerLog(g.log),

		DisableGeneralOptionsHandler: true, // OPTIONS * is for the front door, like all else
	}}
	d.conns.Guard(d.server)
	return d
}

// Start listens and serves. It returns when both listeners are open.
func (g *Gateway) Start() error {
	if err := g.listen(); err != nil {
		return err
	}
	own := []BackgroundTask{{Name: "public connections", Run: g.public.conns.Run}, {Name: "admin connections", Run: g.admin.conns.Run}}
	for _, l := range slices.Concat(g.opts.Background, own) {
		g.background.Go(func() { g.supervise(l) })
	}
	g.background.Go(func() { g.serve(g.public) })
	if g.admin.ln != nil {
		g.background.Go(func() { g.serve(g.admin) })
	}
	return nil
}

func (g *Gateway) listen() error {
	if err := g.public.open(g.tasksCtx, g.opts.Listen, g.opts.Listener); err != nil {
		return fmt.Errorf("public listener: %w", err)
	}
	if g.opts.Admin == "" {
		return nil
	}
	if err := g.admin.open(g.tasksCtx, g.opts.Admin, nil); err != nil {
		_ = g.public.ln.Close() // nothing was served on it
		return fmt.Errorf("admin listener: %w", err)
	}
	g.guard.local = onLoopback(g.admin.addr)
	if !g.guard.local && g.guard.operators == nil {
		_ = g.public.ln.Close()
		_ = g.admin.ln.Close()
		return fmt.Errorf("admin listener: %v is not on loopback, so it needs operators' tokens", g.admin.addr)
	}
	return nil
}

func (g *Gateway) serve(d listener) {
	if err := d.server.Serve(d.ln); !errors.Is(err, http.ErrServerClosed) {
		g.log.Error().Err(err).Msg("listener failed")
		g.failed <- err
	}
}

// Failed delivers the error of a listener that broke.
func (g *Gateway) Failed() <-chan error { return g.failed }

// supervise runs a loop and starts it again after a pause when it fails or
// panics.
func (g *Gateway) supervise(l BackgroundTask) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := g.runTask(l)
		if g.tasksCtx.Err() != nil {
			return
		}
		g.log.Error().Err(err).Str("loop", l.Name).Dur("again_in", pause).Msg("background loop ended")
		select {
		case <-g.tasksCtx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (g *Gateway) runTask(l BackgroundTask) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.metrics.panics.Inc()
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.Run(panics.OnPanic(g.tasksCtx, func(err error) {
		g.metrics.panics.Inc()
		g.log.Error().Err(err).Str("loop", l.Name).Msg("a goroutine of a background loop panicked")
	}))
}

// Addr is the public listener's address.
func (g *Gateway) Addr() net.Addr { return g.public.addr }

// AdminAddr is the admin listener's address, nil when there is none.
func (g *Gateway) AdminAddr() net.Addr { return g.admin.addr }

// cutBefore is how long before the end of the grace the streams that are left
// are told and cut.
const cutBefore = 2 * time.Second

// lastWords is how long streams have to tell their clients that they are cut,
// when there is no grace left.
const lastWords = 500 * time.Millisecond

// Stop ends the gateway: it is not ready at once, accepts for the drain delay,
// then only finishes what it has; what is not finished shortly before the grace
// is over is cut with an error event. It returns when everything has ended. It
// is idempotent; ctx shortens it.
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
	if err := g.public.server.Shutdown(ctx); err != nil {
		g.cutStreams(errDraining)
		last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		_ = g.public.server.Shutdown(last) // whoever can be told why is told
		done()
		_ = g.public.server.Close()
	}
	g.stopTasks()
	_ = g.admin.server.Close() // scrapes may be repeated
	g.background.Wait()
	g.cutStreams(errDraining)
}
