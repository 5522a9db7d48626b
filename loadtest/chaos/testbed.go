package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	simSeed    = 7
	usualRate  = 40.0 // requests a second
	usualScale = 20   // of the simulators' time

	usualDivergence = 0.1 // of drafts from the target
)

// The model and the pools of the usual configuration's one route, and where live settings are.
const (
	RouteModel  = "chaos"
	DraftPool   = "draft"
	TargetPool  = "target"
	settingsKey = "foregate:settings"
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
	Redis    Topology
	Gateways int // default 3
	Drafts   int // simulators of the draft pool; default 2, below 0 none
	Targets  int // of the target pool; default 2
	// Processes makes these simulators processes of their own, [Testbed.Engines]; the gateways reach
	// the last Proxied ones of each pool through a proxy.
	Processes bool
	Proxied   int
	Accounted bool    // each answer must be what the engines say, to the letter: its prompt is one of the world's
	Rate      float64 // of w.Load, requests a second; default 40, below 0 none
	Load      func(n int) Request
	Sim       func(pool string, o *vllmsim.Options) // changes what each simulator is
	// Under are words of a shell before the first gateway runs in its place, such as ulimit -d 262144.
	Under string
	// Config changes the configuration file of gateway i before it is written.
	Config   func(w *Testbed, i int, file map[string]any)
	Settings map[string]string // in foregate:settings before the gateways start, beside mode confidence; "" leaves one out
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
	continued  failovers   // answers that another backend went on with
	Result
}

// StartTestbed starts it all and waits until the gateways share with each other. What it
// started before an error is ended.
func StartTestbed(ctx context.Context, o Options, s Setup) (w *Testbed, err error) {
	redis.SetLogger(quiet{})
	w = &Testbed{Setup: s.withDefaults(), opts: o, Redis: &Redis{}, TimerLag: startTimerLag()}
	if err = w.start(ctx); err != nil {
		err = errors.Join(err, w.Stop())
		err = fmt.Errorf("%w\n%s", err, w.Logs())
	}
	return w, err
}

// quiet keeps go-redis from a line for every dial that fails: that is what is wanted here.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(context.Context, string, ...any) {}

func (tb *Testbed) start(ctx context.Context) (err error) {
	if tb.dir, err = os.MkdirTemp("", "foregate-chaos-"); err != nil {
		return err
	}
	if err := errors.Join(tb.startPool(DraftPool, max(0, tb.Setup.Drafts), &tb.Drafts), tb.startPool(TargetPool, tb.Setup.Targets, &tb.Targets)); err != nil {
		return err
	}
	if tb.Redis, err = startRedis(ctx, tb.Setup.Redis, tb.dir, tb.Setup.Gateways); err != nil {
		return err
	}
	if err := tb.set(ctx, tb.Settings); err != nil {
		return err
	}
	for i := range tb.Setup.Gateways {
		under := ""
		if i == 0 {
			under = tb.Under
		}
		g, err := newGateway(&tb.opts, tb.dir, i, tb.config(i), under)
		if err != nil {
			return err
		}
		tb.Gateways = append(tb.Gateways, g)
		if err := g.Start(ctx); err != nil {
			return err
		}
	}
	if err := process.Poll(ctx, 15*time.Second, func() bool { return tb.Shared(ctx) }); err != nil {
		return fmt.Errorf("the gateways do not share: modes %v: %w", tb.modes(ctx), err)
	}
	return nil
}

func (s Setup) withDefaults() Setup {
	for _, p := range []struct {
		to      *int
		usually int
	}{{&s.Gateways, 3}, {&s.Drafts, 2}, {&s.Targets, 2}} {
		if *p.to == 0 {
			*p.to = p.usually
		}
	}
	if s.Rate == 0 {
		s.Rate = usualRate
	}
	all := map[string]string{"speculation.mode": "confidence"} // so that drafts are served from the first request on
	maps.Copy(all, s.Settings)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	s.Settings = all
	return s
}

// startPool starts the simulators of a pool.
func (tb *Testbed) startPool(pool string, n int, sims *[]*vllmsim.Server) error {
	if tb.Processes {
		return tb.startEngines(pool, n)
	}
	for range n {
		s, err := vllmsim.New(tb.simOptions(pool))
		if err != nil {
			return fmt.Errorf("pool %s: %w", pool, err)
		}
		tb.Adopt(s.Close)
		if err := s.Start("127.0.0.1:0"); err != nil {
			return fmt.Errorf("pool %s: %w", pool, err)
		}
		*sims = append(*sims, s)
	}
	return nil
}

// simOptions are those of each simulator of a pool.
func (tb *Testbed) simOptions(pool string) vllmsim.Options {
	o := vllmsim.Options{Model: RouteModel, Seed: simSeed, TimeScale: usualScale}
	if pool == DraftPool {
		o.Divergence = usualDivergence
	}
	if tb.Sim != nil {
		tb.Sim(pool, &o)
	}
	return o
}

// URLs are those of a pool's simulators in this process, or of its processes.
func (tb *Testbed) URLs(pool string) (out []string) {
	for _, s := range map[string][]*vllmsim.Server{DraftPool: tb.Drafts, TargetPool: tb.Targets}[pool] {
		out = append(out, s.URL())
	}
	for _, e := range tb.enginesOf(pool) {
		out = append(out, e.URL())
	}
	return out
}

// enginesOf are a pool's engines.
func (tb *Testbed) enginesOf(pool string) (out []*Engine) {
	for _, e := range tb.Engines {
		if e.Pool == pool {
			out = append(out, e)
		}
	}
	return out
}

// config is the configuration file of gateway i, but for its listeners.
func (tb *Testbed) config(i int) map[string]any {
	pools := map[string]any{TargetPool: map[string]any{"model": RouteModel, "backends": tb.URLs(TargetPool)}}
	route := map[string]any{"model": RouteModel, "target": TargetPool, "same_tokenizer": true}
	if drafts := tb.URLs(DraftPool); len(drafts) > 0 {
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
		"redis": map[string]any{"url": tb.Redis.url(i)}, "pools": pools, "routes": []any{route}, "tenants": tenants,
		"drain": map[string]any{"delay": "0s", "grace": "10s"},
	}
	if tb.Config != nil {
		tb.Config(tb, i, file)
	}
	return file
}

// EachTenant changes the tenants of a configuration.
func EachTenant(file map[string]any, change func(i int, tenant map[string]any)) {
	tenants, _ := file["tenants"].([]any) // made by Testbed.config
	for i, t := range tenants {
		if t, ok := t.(map[string]any); ok {
			change(i, t)
		}
	}
}

// set writes live settings where the gateways read them.
func (tb *Testbed) set(ctx context.Context, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	s := tb.Redis.Servers[0]
	if tb.Redis.Topology == Cluster {
		i, err := tb.Redis.holder(ctx, settingsKey)
		if err != nil {
			return err
		}
		s = tb.Redis.Servers[i]
	}
	if err := s.Client.HSet(ctx, settingsKey, values).Err(); err != nil {
		return fmt.Errorf("HSET %s: %w", settingsKey, err)
	}
	return nil
}

// Adopt has stop called at the world's end, the last adopted first.
func (tb *Testbed) Adopt(stop func() error) { tb.adopted = append(tb.adopted, stop) }

// Stop ends everything that runs, and waits.
func (tb *Testbed) Stop() error {
	var errs []error
	for _, l := range tb.loads {
		l.Stop()
	}
	for _, g := range tb.Gateways { // all at once
		if g.Alive() {
			_ = g.Thaw() // a frozen one hears nothing
			_ = g.Terminate()
		}
	}
	for _, g := range tb.Gateways {
		errs = append(errs, g.Stop())
	}
	errs = append(errs, tb.Redis.stop())
	for i := len(tb.adopted) - 1; i >= 0; i-- {
		errs = append(errs, tb.adopted[i]())
	}
	tb.TimerLag.stop()
	if tb.dir != "" {
		errs = append(errs, os.RemoveAll(tb.dir))
	}
	return errors.Join(errs...)
}

// Logs are the last log lines of each gateway.
func (tb *Testbed) Logs() (out string) {
	for _, g := range tb.Gateways {
		out += fmt.Sprintf("--- gateway %d, last lines of its log:\n%s\n", g.Number, g.Log.Last(25))
	}
	return out
}
