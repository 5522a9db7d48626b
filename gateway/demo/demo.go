// Package demo runs a whole fleet in one process, to show the gateway: simulated engines or a pair of real ones that run
// already, replicas behind one port, and traffic. Start at [Run]; [Pair] are real engines.
package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
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
	TimeScale float64      // speed of the simulated engines relative to real hardware; above 0
	Pair      *Pair        // real engines, as [Pair.Find] returns them; nil: simulated ones
	Stores    stores.Stores
	RedisAddr *net.TCPAddr // where local programs reach the embedded Redis of Stores; nil: Redis is elsewhere
	Version   string

	Stdout, Stderr io.Writer // the report; errors of the log
}

const (
	simRoute, pairRoute = "llama-3", "demo"

	draftModel  = "sim/llama-3-8b"
	targetModel = "sim/llama-3-70b"
	// divergence gives a pair of models whose target refuses about a tenth of all drafts of these sentences.
	divergence = 0.55
	// draftBlocks is the KV memory of a draft backend, in blocks of 16 tokens. It is small, as on a GPU that
	// also serves other models, so that little traffic fills it with warm prefixes.
	draftBlocks = 720

	// simProbeTimeout bounds how long Run waits for the engines' probes; at real speed they take 5 to 8 s.
	simProbeTimeout = 20 * time.Second
	// pairProbeTimeout is the same for real engines: a probe has up to 2,500 tokens of prompts and 400 of answers, which
	// a laptop may take minutes for.
	pairProbeTimeout = 10 * time.Minute
	// waitingLines is the time between two lines that say so.
	waitingLines = 15 * time.Second
	// drainGrace is the time that requests in progress get at the end.
	drainGrace = 5 * time.Second
)

// neighbours lets whoever comes from a private network name a tenant, as on loopback: a container's clients come from there.
const neighbours = `
identity:
  mode: trusted_headers
  trusted_proxies: [127.0.0.0/8, "::1/128", 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]
  unlisted_tenants: default
  default_tenant: {max_priority: high}
tenants: [{id: default, max_priority: high}]
`

// The pools for drafts and for targets.
var (
	simPools  = [2]string{"llama-8b-a10g", "llama-70b-h100"}
	pairPools = [2]string{"draft", "target"}
)

// demo is a running demo.
type demo struct {
	Options
	registry *prometheus.Registry // of all replicas
	token    string               // the operator's
	route    string               // that clients ask for
	pools    [2]string
	replicas []*app.App
	cleanups []func() // called at the end, in reverse order
}

// Run starts everything, prints how to use it, and reports until ctx ends. Then it stops
// everything.
func Run(ctx context.Context, o Options) error {
	d := &demo{Options: o, registry: prometheus.NewRegistry(), token: rand.Text() + rand.Text(), route: simRoute, pools: simPools}
	if o.Pair != nil {
		d.route, d.pools = pairRoute, pairPools
	}
	d.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		for _, f := range slices.Backward(d.cleanups) {
			f()
		}
	}()
	if err := d.start(ctx); err != nil {
		return err
	}
	d.awaitProbes(ctx)
	if err := d.printWelcome(ctx); err != nil {
		return err
	}
	if o.Traffic {
		sending, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		all.Go(func() { newTraffic("http://"+d.Listener.Addr().String(), d.route, o.TimeScale).run(sending) })
		d.onStop(func() { cancel(); all.Wait() })
	}
	d.report(ctx)
	return nil
}

// say prints to whom it shows the gateway, who may be gone.
func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.Stdout, format, args...) }

func (d *demo) onStop(f func()) { d.cleanups = append(d.cleanups, f) }

// start starts the replicas, before them simulated engines if there is no pair. All replicas accept from the same listener;
// the one that stops first closes it for all. The first has an admin listener, which shows the metrics of all.
func (d *demo) start(ctx context.Context) error {
	d.onStop(func() { _ = d.Listener.Close() }) // no connection waits in it
	text, err := d.engines()
	if err != nil {
		return err
	}
	file, err := config.Parse("demo.yaml", text)
	if err != nil {
		return err
	}
	d.onStop(d.stopReplicas)
	for i := range d.Replicas {
		o := app.Options{
			File: file, Stores: d.Stores, Listener: d.Listener, Version: d.Version,
			Logger:     zerolog.New(d.Stderr).Level(zerolog.ErrorLevel).With().Timestamp().Int("replica", i+1).Logger(), // errors show between the lines of the report
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
	}
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

// engines returns the configuration that an operator of the pair would write, or of the simulated backends, which it
// starts.
func (d *demo) engines() ([]byte, error) {
	if d.Pair != nil {
		return d.Pair.config(), nil
	}
	small := vllmsim.Options{Model: draftModel, Profile: "a10g-8b", Divergence: divergence, BlocksOverride: draftBlocks}
	large := vllmsim.Options{Model: targetModel, Profile: "h100-70b-tp4"}
	var urls []string
	for _, o := range []vllmsim.Options{small, small, large} {
		o.Seed, o.TimeScale, o.Sentences = 1, d.TimeScale, true
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
	identity := ""
	if at, ok := d.Listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		identity = neighbours
	}
	return fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools:
  %[1]s: {model: %[2]s, usd_per_hour: 1.01, prefill_tokens_per_s: 2500, decode_tokens_per_s: 900, backends: [%[3]q, %[4]q]}
  %[5]s: {model: %[6]s, usd_per_hour: 27.5, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2300, backends: [%[7]q]}
routes:
  - {model: %[8]s, draft: %[1]s, target: %[5]s, same_tokenizer: true}
drain: {delay: 0s, grace: %[9]s}
%[10]s`, simPools[0], draftModel, urls[0], urls[1], simPools[1], targetModel, urls[2], simRoute, drainGrace, identity), nil
}

// awaitProbes waits until every replica has probed its engines, or for so long. Before that no request is drafted, and
// the first one would show nothing.
func (d *demo) awaitProbes(ctx context.Context) {
	limit := simProbeTimeout
	if d.Pair != nil {
		limit = pairProbeTimeout
	}
	d.say("Starting; each replica asks its engines what they can do …\n")
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, said := time.Now(), time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(d.replicas, func(a *app.App) bool { return !a.EnginesKnown() }) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(said) >= waitingLines {
			said = time.Now()
			d.say("… asking for %.0f s; small machines take minutes%s\n", said.Sub(began).Seconds(), d.unanswered())
		}
	}
}
