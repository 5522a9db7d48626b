package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	gateways   = 3
	simSeed    = 7
	usualRate  = 40.0 // requests a second
	usualScale = 20   // of the simulators' time

	usualDivergence = 0.1 // of drafts from the target
)

// The model and the pools of the usual configuration's one route.
const (
	RouteModel = "chaos"
	DraftPool  = "draft"
	TargetPool = "target"
)

// Tenants are those of the usual configuration; [Key] is the bearer key of each. Both may
// ask for every priority, and have rate limits that the usual load stays far below, so
// that admission asks Redis about every request.
var Tenants = [...]string{"acme", "globex"}

// Key is the bearer key of a tenant.
func Key(tenant string) string { return "chaos-key-of-" + tenant }

// KeyHash is a key as the configuration has it.
func KeyHash(tenant string) string {
	sum := sha256.Sum256([]byte(Key(tenant)))
	return hex.EncodeToString(sum[:])
}

// Setup says what a row's world is made of. The zero value is what most rows want: one
// Redis server, three gateways, two draft and two target simulators, the usual load.
type Setup struct {
	Redis   Topology
	Drafts  int // simulators of the draft pool; default 2, below 0 none
	Targets int // of the target pool; default 2
	// Processes makes these simulators processes of their own, [Testbed.Engines]; the gateways reach
	// the last Proxied ones of each pool through a [Proxy].
	Processes bool
	Proxied   int
	Rate      float64 // of w.Load, requests a second; default 40, below 0 none
	Load      func(n int) Request
	Sim       func(o *vllmsim.Options) // changes what each simulator is
	// Prepare starts what Config names, once the simulators run; it adopts what it starts.
	Prepare func(w *Testbed) error
	// Under are words of a shell before gateway i runs in its place, such as ulimit -n 256.
	Under func(w *Testbed, i int) string
	// Config changes the configuration file of gateway i before it is written.
	Config   func(i int, file map[string]any)
	Settings map[string]string // in foregate:settings before the gateways start
}

// Testbed is everything that runs for one row.
type Testbed struct {
	Setup
	Drafts, Targets []*vllmsim.Server
	Redis           *Redis
	Gateways        []*Gateway
	Engines         []*Engine // that are processes
	Load            *Load
	TimerLag        *TimerLag

	opts       Options
	dir        string
	loads      []*Load
	started    int // loads so far
	tries      int // of what a load balancer finds refused, see BalanceBy
	adopted    []func() error
	base       []footprint // of each gateway before the load
	injections int         // faults so far
	due        int         // lines that each gateway has had to log: one for each change of settings
	recovered  time.Duration
	notes      []string
	figure     time.Duration // the row's own
	failures   []string
	failovers  failovers   // of takeovers
	did        *accounting // of an operation; nil: it has not come so far, or is none
}

// StartTestbed starts it all and waits until the gateways share with each other. What it
// started before an error is ended.
func StartTestbed(ctx context.Context, o Options, s Setup) (w *Testbed, err error) {
	redis.SetLogger(quiet{})
	w = &Testbed{Setup: s.withDefaults(), opts: o, Redis: &Redis{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
			err = fmt.Errorf("%w\n%s", err, w.Logs())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "foregate-chaos-"); err != nil {
		return w, err
	}
	w.TimerLag = startTimerLag()
	if err := w.startSims(); err != nil {
		return w, err
	}
	if w.Prepare != nil {
		if err := w.Prepare(w); err != nil {
			return w, err
		}
	}
	if w.Redis, err = startRedis(ctx, w.Setup.Redis, w.dir); err != nil {
		return w, err
	}
	w.Settings = drafting(w.Settings)
	if err := w.set(ctx, w.Settings); err != nil {
		return w, err
	}
	for i := range gateways {
		g, err := NewGateway(&o, w.dir, i, w.config(i))
		if err != nil {
			return w, err
		}
		w.Gateways = append(w.Gateways, g)
		if w.Under != nil {
			if err := g.under(w.dir, w.Under(w, i)); err != nil {
				return w, err
			}
		}
		if err := g.Start(ctx); err != nil {
			return w, err
		}
	}
	if err := process.Poll(ctx, 15*time.Second, func() bool { return w.Shared(ctx) }); err != nil {
		return w, fmt.Errorf("the gateways do not share: modes %v: %w", w.Modes(ctx), err)
	}
	return w, nil
}

func (s Setup) withDefaults() Setup {
	if s.Drafts == 0 {
		s.Drafts = 2
	}
	if s.Targets == 0 {
		s.Targets = 2
	}
	if s.Rate == 0 {
		s.Rate = usualRate
	}
	return s
}

// startProcesses starts the simulators as processes.
func (w *Testbed) startProcesses() error {
	for pool, n := range map[string]int{DraftPool: w.Setup.Drafts, TargetPool: w.Setup.Targets} {
		all, err := w.StartEngines(pool, max(0, n))
		w.Engines = append(w.Engines, all...)
		if err != nil {
			return err
		}
	}
	return nil
}

// startSims starts the simulators.
func (w *Testbed) startSims() error {
	if w.Processes {
		return w.startProcesses()
	}
	start := func(n int, pool string) (out []*vllmsim.Server, err error) {
		for range n {
			s, err := vllmsim.New(w.simOptions(pool))
			if err != nil {
				return out, err
			}
			if err := s.Start("127.0.0.1:0"); err != nil {
				return out, err
			}
			w.Adopt(s.Close)
			out = append(out, s)
		}
		return out, nil
	}
	var err error
	if w.Drafts, err = start(max(0, w.Setup.Drafts), DraftPool); err != nil {
		return err
	}
	w.Targets, err = start(w.Setup.Targets, TargetPool)
	return err
}

// simOptions are those of each simulator of a pool.
func (w *Testbed) simOptions(pool string) vllmsim.Options {
	o := vllmsim.Options{Model: RouteModel, Seed: simSeed, TimeScale: usualScale}
	if pool == DraftPool {
		o.Divergence = usualDivergence
	}
	if w.Sim != nil {
		w.Sim(&o)
	}
	return o
}

// urls are those of a pool's simulators in this process, or of its processes.
func (w *Testbed) urls(pool string, sims []*vllmsim.Server) (out []string) {
	for _, s := range sims {
		out = append(out, s.URL())
	}
	if !w.Processes {
		return out
	}
	for _, e := range w.Engines {
		if e.Pool == pool {
			out = append(out, e.URL())
		}
	}
	return out
}

// config is the configuration file of gateway i, but for its listeners.
func (w *Testbed) config(i int) map[string]any {
	pools := map[string]any{TargetPool: map[string]any{"model": RouteModel, "backends": w.urls(TargetPool, w.Targets)}}
	route := map[string]any{"model": RouteModel, "target": TargetPool, "same_tokenizer": true}
	if drafts := w.urls(DraftPool, w.Drafts); len(drafts) > 0 {
		pools[DraftPool] = map[string]any{"model": RouteModel, "backends": drafts}
		route["draft"] = DraftPool
	}
	var tenants []any
	for _, id := range Tenants {
		tenants = append(tenants, map[string]any{
			"id": id, "keys_sha256": []string{KeyHash(id)}, "max_priority": "high", "rpm": 100_000, "tpm": 100_000_000,
		})
	}
	file := map[string]any{
		"redis": map[string]any{"url": w.Redis.url(i)}, "pools": pools, "routes": []any{route}, "tenants": tenants,
		"drain": map[string]any{"delay": "0s", "grace": "10s"},
	}
	if w.Config != nil {
		w.Config(i, file)
	}
	return file
}

// drafting are settings with which drafts are served from the first request on, where a row says
// nothing else.
func drafting(settings map[string]string) map[string]string {
	all := map[string]string{"speculation.mode": "confidence"}
	maps.Copy(all, settings)
	return all
}

// set writes live settings where the gateways read them.
func (w *Testbed) set(ctx context.Context, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	s := w.Redis.Servers[0]
	if w.Redis.Topology == Cluster {
		s = w.Redis.Servers[w.Redis.Holder(ctx, settingsKey)]
	}
	if err := s.Client.HSet(ctx, settingsKey, values).Err(); err != nil {
		return fmt.Errorf("HSET %s: %w", settingsKey, err)
	}
	return nil
}

// Adopt has stop called at the world's end, the last adopted first.
func (w *Testbed) Adopt(stop func() error) { w.adopted = append(w.adopted, stop) }

// Dir is a folder that goes with the world.
func (w *Testbed) Dir() string { return w.dir }

// Short reports whether the short form was asked for.
func (w *Testbed) Short() bool { return w.opts.Short }

// Span is how long a phase lasts: short in the short form, else whole times the scale.
func (w *Testbed) Span(short, whole time.Duration) time.Duration {
	if w.opts.Short {
		return short
	}
	return time.Duration(float64(whole) * w.opts.Scale)
}

// Hold lets the load go on for a while.
func (w *Testbed) Hold(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Inject is one fault: begin, hold while the load goes on, end; then it waits until the
// gateways share with each other again and keeps the longest time that this took. What is
// sent from the fault's beginning to the recovery counts as sent during the fault.
func (w *Testbed) Inject(ctx context.Context, hold time.Duration, begin, end func() error) error {
	return w.InjectUntil(ctx, hold, begin, end, w.Shared)
}

// InjectUntil is Inject with another word on when all is as before.
func (w *Testbed) InjectUntil(ctx context.Context, hold time.Duration, begin, end func() error, well func(context.Context) bool) error {
	w.injections++
	w.Phase(During)
	if err := begin(); err != nil {
		return err
	}
	if err := w.Hold(ctx, hold); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	began := time.Now()
	err := process.Poll(ctx, maxRecovery, func() bool { return w.ended() || well(ctx) })
	if err != nil {
		w.Fail("not recovered %v after the fault's end: %v; modes %v", maxRecovery, err, w.Modes(ctx))
	}
	w.recovered = max(w.recovered, time.Since(began))
	w.Phase(After)
	return nil
}

// ended reports whether a gateway has ended that should not have: nothing will be as before.
func (w *Testbed) ended() bool {
	return slices.ContainsFunc(w.Gateways, func(g *Gateway) bool { return !g.Alive() && !g.Leaving.Load() })
}

// maxRecovery is how long a recovery is waited for.
const maxRecovery = 30 * time.Second

// Phase marks what all loads send from here on.
func (w *Testbed) Phase(name string) {
	for _, l := range w.loads {
		l.Phase(name)
	}
}

// Modes returns the degradation level of each gateway; "" means no answer.
func (w *Testbed) Modes(ctx context.Context) []string {
	var out []string
	for _, g := range w.Gateways {
		mode := ""
		if g.Alive() {
			if m, err := g.Metrics(ctx); err == nil {
				mode = m.Mode()
			}
		}
		out = append(out, mode)
	}
	return out
}

// InMode reports whether every gateway has one of these degradation levels.
func (w *Testbed) InMode(ctx context.Context, modes ...string) bool {
	for _, m := range w.Modes(ctx) {
		if !slices.Contains(modes, m) {
			return false
		}
	}
	return true
}

// Shared reports whether every gateway shares with all others.
func (w *Testbed) Shared(ctx context.Context) bool {
	for _, g := range w.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil || m.Mode() != "shared" {
			return false
		}
		if n, ok := m.Value("foregate_fleet_replicas"); ok && int(n) != len(w.Gateways) {
			return false
		}
	}
	return true
}

// Until waits until ok, at most for limit, and tells how long it took. What does not come
// in time breaks the row's promise.
func (w *Testbed) Until(ctx context.Context, limit time.Duration, what string, ok func() bool) time.Duration {
	began := time.Now()
	if err := process.Poll(ctx, w.TimerLag.Bound(limit), ok); err != nil {
		w.Fail("%s: not within %v", what, limit)
	}
	return time.Since(began)
}

// Note puts words beside the row in the table.
func (w *Testbed) Note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// Fail says which promise was not kept; the row fails, and goes on.
func (w *Testbed) Fail(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// Stop ends everything that runs, and waits.
func (w *Testbed) Stop() error {
	var errs []error
	for _, l := range w.loads {
		l.Stop()
	}
	for _, g := range w.Gateways { // all at once
		if p := g.Process(); p != nil && p.Alive() {
			_ = p.Thaw() // a frozen one hears nothing
			_ = g.Terminate()
		}
	}
	for _, g := range w.Gateways {
		if p := g.Process(); p != nil {
			errs = append(errs, p.Stop())
		}
	}
	errs = append(errs, w.Redis.stop())
	for i := len(w.adopted) - 1; i >= 0; i-- {
		errs = append(errs, w.adopted[i]())
	}
	if w.TimerLag != nil {
		w.TimerLag.stop()
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// Logs are the last log lines of each gateway.
func (w *Testbed) Logs() (out string) {
	for _, g := range w.Gateways {
		out += fmt.Sprintf("--- gateway %d, last lines of its log:\n%s\n", g.Number, g.log.Last(25))
	}
	return out
}
