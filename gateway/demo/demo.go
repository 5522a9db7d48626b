// Package demo runs a whole fleet in one process, to show the gateway: simulated engines, replicas behind one
// port, and traffic.
package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Options configure a demo.
type Options struct {
	Listener  net.Listener // Run closes it
	Admin     string       // address of the first replica's admin listener
	Replicas  int          // at least 1
	Traffic   bool         // send requests
	TimeScale float64      // speed of the engines relative to real hardware; above 0
	Stores    stores.Stores
	Redis     RedisAccess
	Version   string

	Stdout, Stderr io.Writer // the report; errors of the log
}

// RedisAccess is how local programs reach the embedded Redis; zero if Redis is elsewhere.
type RedisAccess struct {
	Addr     *net.TCPAddr
	Password string
}

const (
	route       = "llama-3"
	draftPool   = "llama-8b-a10g"
	targetPool  = "llama-70b-h100"
	draftModel  = "sim/llama-3-8b"
	targetModel = "sim/llama-3-70b"
	// divergence gives a pair of models whose target refuses about a tenth of all drafts
	// (docs/proof.md#simulated-drafts).
	divergence = 0.35
	// draftBlocks is the KV memory of a draft backend, in blocks of 16 tokens. It is small, as on a GPU that
	// also serves other models, so that little traffic fills it with warm prefixes.
	draftBlocks = 720

	// probeTimeout bounds how long Run waits for the engines' probes; at real speed they take 5 to 8 s.
	probeTimeout = 20 * time.Second
	// drainGrace is the time that requests in progress get at the end.
	drainGrace = 5 * time.Second
)

// Run starts everything, prints how to use it, and reports once a second until ctx ends. Then it stops
// everything.
func Run(ctx context.Context, o Options) error {
	d := &demo{Options: o, registry: prometheus.NewRegistry(), token: rand.Text() + rand.Text()}
	defer d.stop()
	if err := d.start(ctx); err != nil {
		return err
	}
	d.awaitProbes(ctx)
	d.printWelcome()
	d.printOperation()
	if o.Traffic {
		sending, cancel := context.WithCancel(ctx)
		t := newTraffic("http://"+d.front.Addr().String(), o.TimeScale)
		t.start(sending)
		d.onStop(func() { cancel(); t.wait() })
	}
	d.report(ctx)
	return nil
}

// demo is a running demo.
type demo struct {
	Options
	registry *prometheus.Registry // of all replicas
	token    string               // the operator's
	front    *splitListener
	replicas []*app.App
	cleanups []func()
}

// onStop registers f to be called by stop, in reverse order.
func (d *demo) onStop(f func()) { d.cleanups = append(d.cleanups, f) }

func (d *demo) stop() {
	for _, f := range slices.Backward(d.cleanups) {
		f()
	}
}

func (d *demo) start(ctx context.Context) error {
	d.front = newSplitListener(d.Listener, d.Replicas, d.log())
	d.onStop(d.front.stop)
	file, err := d.startEngines()
	if err != nil {
		return err
	}
	d.onStop(d.stopReplicas)
	for i := range d.Replicas {
		if err := d.startReplica(ctx, i, file); err != nil {
			return err
		}
	}
	return nil
}

// log is for errors, which must be visible between the lines of the report.
func (d *demo) log() zerolog.Logger {
	return zerolog.New(d.Stderr).Level(zerolog.ErrorLevel).With().Timestamp().Logger()
}

// startReplica starts one replica. The first has an admin listener, which shows the metrics of all.
func (d *demo) startReplica(ctx context.Context, i int, file *config.File) error {
	o := app.Options{
		File: file, Stores: d.Stores, Listener: d.front.share(i), Version: d.Version,
		Logger:     d.log().With().Int("replica", i+1).Logger(),
		Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"replica": fmt.Sprint(i + 1)}, d.registry),
	}
	if i == 0 {
		o.Admin, o.Gatherer, o.Tokens = d.Admin, d.registry, fmt.Appendf(nil, "demo operate %s\n", d.token)
	}
	a, err := app.New(ctx, o)
	if err != nil {
		return err
	}
	if err := a.Start(); err != nil {
		return err
	}
	d.replicas = append(d.replicas, a)
	return nil
}

// stopReplicas drains all replicas within one grace period.
func (d *demo) stopReplicas() {
	ctx, cancel := context.WithTimeout(context.Background(), drainGrace+time.Second)
	defer cancel()
	for _, a := range d.replicas {
		a.Stop(ctx)
	}
}

// startEngines starts the simulated backends, and makes the configuration that an operator of such a fleet
// would write.
func (d *demo) startEngines() (*config.File, error) {
	small := vllmsim.Options{Model: draftModel, Profile: "a10g-8b", Divergence: divergence, BlocksOverride: draftBlocks}
	large := vllmsim.Options{Model: targetModel, Profile: "h100-70b-tp4"}
	var urls []string
	for _, o := range []vllmsim.Options{small, small, large} {
		o.Seed, o.TimeScale = 1, d.TimeScale
		sim, err := vllmsim.New(o)
		if err != nil {
			return nil, err
		}
		if err := sim.Start("127.0.0.1:0"); err != nil {
			return nil, err
		}
		d.onStop(func() { _ = sim.Close() }) // it has no state to lose
		urls = append(urls, sim.URL())
	}
	return config.Parse("demo.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools:
  %s: {model: %s, usd_per_hour: 1.01, prefill_tokens_per_s: 2500, decode_tokens_per_s: 900, backends: [%q, %q]}
  %s: {model: %s, usd_per_hour: 27.5, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2300, backends: [%q]}
routes:
  - {model: %s, draft: %s, target: %s, same_tokenizer: true}
drain: {delay: 0s, grace: %s}
`, draftPool, draftModel, urls[0], urls[1], targetPool, targetModel, urls[2], route, draftPool, targetPool, drainGrace))
}

// awaitProbes waits until every replica has probed its engines, at most probeTimeout. Before that no request
// is drafted, and the first one would show nothing.
func (d *demo) awaitProbes(ctx context.Context) {
	_, _ = fmt.Fprintln(d.Stdout, "Starting; each replica asks its engines what they can do …")
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(d.replicas, func(a *app.App) bool { return !a.EnginesKnown() }) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
