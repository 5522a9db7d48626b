package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

type demoCmd struct {
	Listen      string  `default:"127.0.0.1:8080" help:"Where requests are taken; port 0 picks one."`
	Admin       string  `default:"127.0.0.1:9090" help:"Where metrics are; port 0 picks one."`
	Replicas    int     `default:"2" help:"Gateway replicas behind the port (1 to 16)."`
	Traffic     bool    `default:"true" negatable:"" help:"Send a trickle of varied requests."`
	Redis       string  `default:"embedded" help:"\"embedded\", or the URL of a Redis."`
	RedisListen string  `default:"127.0.0.1:6379" help:"Where on loopback the embedded Redis listens, with a password of its own; where that is taken, at a free port."`
	TimeScale   float64 `default:"1" help:"How many times faster than real hardware the simulated pools run."`
}

const (
	demoRoute   = "llama-3"
	draftModel  = "sim/llama-3-8b"
	targetModel = "sim/llama-3-70b"
	// demoDivergence makes a pair of models of which the target would refuse about a tenth of all drafts
	// (loadtest/README.md).
	demoDivergence = 0.35
	// demoQuestion is one whose draft scores high: it is an answer in the warm-up, too.
	demoQuestion = "Why do cats purr?"
	maxReplicas  = 16
	// demoDraftBlocks is the KV memory of a draft backend, in blocks of 16 tokens: the GPU
	// serves other models, too. So a trickle is enough to fill it with warm prefixes.
	demoDraftBlocks = 720
)

// Run brings the whole system up on this machine and reports once a second.
func (c *demoCmd) Run(e *env) error {
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		return fmt.Errorf("--replicas must be between 1 and %d, but is %d", maxReplicas, c.Replicas)
	}
	if c.TimeScale <= 0 {
		return fmt.Errorf("--time-scale must be above 0, but is %g", c.TimeScale)
	}
	d := &demo{cmd: c, env: e, registry: prometheus.NewRegistry()}
	defer d.stop()
	if err := d.start(); err != nil {
		return err
	}
	d.awaitProbes()
	d.greet()
	d.greetOperator()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	if c.Traffic {
		t := newTrickle("http://"+d.front.Addr().String(), c.TimeScale)
		d.running = append(d.running, t.wait)
		t.start(ctx)
	}
	d.report(ctx)
	return nil
}

// demo is a running demonstration. stop ends what was started, in reverse.
type demo struct {
	cmd       *demoCmd
	env       *env
	registry  *prometheus.Registry
	store     stores
	front     *fanOut
	redis     *redisListener // nil where Redis is not embedded
	token     string
	admin     string
	drainable string        // a draft backend's id
	probed    []func() bool // of each replica: its engines are known
	promised  func() []gateway.PromiseView
	running   []func()
}

func (d *demo) start() error {
	if err := config.CheckAdmin(d.cmd.Admin); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	store, closeStores, err := openStores(config.Redis{URL: d.cmd.Redis})
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	d.store = store
	d.running = append(d.running, closeStores)
	if err := d.listenRedis(); err != nil {
		return err
	}
	d.token = rand.Text() + rand.Text()
	file, err := d.startPools()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(d.env.ctx, "tcp", d.cmd.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	d.front = newFanOut(ln, d.cmd.Replicas, d.log())
	d.running = append(d.running, d.front.stop)
	var replicas []*gateway.Gateway
	d.running = append(d.running, func() { stopAll(replicas) })
	for i := range d.cmd.Replicas {
		g, err := d.startReplica(i, file)
		if err != nil {
			return err
		}
		replicas = append(replicas, g)
	}
	return nil
}

// log is for what must not go unseen between the lines of the report.
func (d *demo) log() zerolog.Logger {
	return zerolog.New(d.env.stderr).Level(zerolog.ErrorLevel).With().Timestamp().Logger()
}

func (d *demo) startReplica(i int, file *config.File) (*gateway.Gateway, error) {
	p := d.store.parts()
	p.file, p.listener = file, d.front.part(i)
	p.log = d.log().With().Int("replica", i+1).Logger()
	p.registerer = prometheus.WrapRegistererWith(prometheus.Labels{"replica": fmt.Sprint(i + 1)}, d.registry)
	if i == 0 { // one admin port shows all replicas
		p.admin, p.gatherer, p.tokens = d.cmd.Admin, d.registry, fmt.Appendf(nil, "demo operate %s\n", d.token)
	}
	r, err := assemble(d.env.ctx, p)
	if err != nil {
		return nil, err
	}
	if err := r.gateway.Start(); err != nil {
		return nil, err
	}
	d.probed = append(d.probed, func() bool {
		return r.prober.Capabilities("llama-8b-a10g") != nil && r.prober.Capabilities("llama-70b-h100") != nil
	})
	if i == 0 {
		d.admin = r.gateway.AdminAddr().String()
		d.promised = r.risks.promises
		d.drainable = r.pools["llama-8b-a10g"].Snapshot()[0].ID
	}
	return r.gateway, nil
}

// startPools starts the simulated backends and writes the configuration that an
// operator of such a fleet would.
func (d *demo) startPools() (*config.File, error) {
	sims := []struct {
		model, profile string
		divergence     float64
		blocks         int // 0: the profile's
	}{
		{draftModel, "a10g-8b", demoDivergence, demoDraftBlocks}, {draftModel, "a10g-8b", demoDivergence, demoDraftBlocks}, {targetModel, "h100-70b-tp4", 0, 0},
	}
	var urls []string
	for _, s := range sims {
		sim, err := vllmsim.New(vllmsim.Options{Model: s.model, Profile: s.profile, Divergence: s.divergence, BlocksOverride: s.blocks, Seed: 1, TimeScale: d.cmd.TimeScale})
		if err != nil {
			return nil, err
		}
		if err := sim.Start("127.0.0.1:0"); err != nil {
			return nil, err
		}
		d.running = append(d.running, func() { _ = sim.Close() }) // it holds nothing worth keeping
		urls = append(urls, sim.URL())
	}
	return config.Parse("demo.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools:
  llama-8b-a10g: {model: %s, usd_per_hour: 1.01, prefill_tokens_per_s: 2500, decode_tokens_per_s: 900, backends: [%q, %q]}
  llama-70b-h100: {model: %s, usd_per_hour: 27.5, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2300, backends: [%q]}
routes:
  - {model: %s, draft: llama-8b-a10g, target: llama-70b-h100, same_tokenizer: true}
drain: {delay: 0s, grace: 5s}
`, draftModel, urls[0], urls[1], targetModel, urls[2], demoRoute))
}

func (d *demo) greet() {
	addr := d.front.Addr().String()
	_, _ = fmt.Fprintf(d.env.stdout, `Foregate demo: %d replicas, draft pool 2 x a10g-8b, target pool 1 x h100-70b-tp4 (simulated, %gx speed)

  requests   http://%s/v1/chat/completions
  console    http://%s/console/#token=%s
  metrics    http://%s/metrics

Try it:

  curl -sN http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"%s"}]}'

The models are simulated: of all drafts of this traffic the target would refuse about 9 in 100. The route is in its warm-up: drafts
above a cautious threshold (an eighth of them at first, then the best third) are answers, marked phase=warmup, and each is
audited; the others escalate. Usually within five minutes a threshold is certified, and from then on a promise holds: of the
drafts that are answers, the target would refuse at most 10 in 100. The lines below tell how far it is, and so does

  bin/foregate risk show --admin http://%s

`, d.cmd.Replicas, d.cmd.TimeScale, addr, d.admin, d.token, d.admin, addr, demoRoute, demoQuestion, d.admin)
}

func (d *demo) stop() {
	for i := len(d.running) - 1; i >= 0; i-- {
		d.running[i]()
	}
}

func stopAll(gateways []*gateway.Gateway) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	for _, g := range gateways {
		g.Stop(ctx)
	}
}

// report prints a line a second until ctx ends.
func (d *demo) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last totals
	promise := promiseReport{say: func(text string) { _, _ = fmt.Fprintln(d.env.stdout, text) }}
	for {
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(d.env.stdout, "\nstopping")
			return
		case <-tick.C:
		}
		now := d.totals()
		_, _ = fmt.Fprintf(d.env.stdout, "%s  requests %3d (+%d)  accepted %3d  escalated %3d  cached %3d  shed %3d\n",
			time.Now().Format(time.TimeOnly), now.requests, now.requests-last.requests, now.accepted, now.escalated, now.cached, now.shed)
		last = now
		promise.tell(d.promised(), time.Now())
	}
}

// served are the results of lookups that spared a generation.
var served = regexp.MustCompile(`\bresult=(hit|local|coalesced)\b`)

type totals struct{ requests, accepted, escalated, cached, shed int }

// totals sums the replicas' counters.
func (d *demo) totals() totals {
	families, err := d.registry.Gather()
	if err != nil {
		return totals{}
	}
	var t totals
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n := int(m.GetCounter().GetValue())
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			t.add(f.GetName(), strings.Join(labels, " "), n)
		}
	}
	return t
}

func (t *totals) add(name, labels string, n int) {
	switch {
	case name == "foregate_requests_total" && strings.Contains(labels, "route="+demoRoute):
		t.requests += n
	case name == "foregate_acceptance_total" && strings.Contains(labels, "verdict=accepted"):
		t.accepted += n
	case name == "foregate_acceptance_total" && strings.Contains(labels, "verdict=rejected"):
		t.escalated += n
	case name == "llm_cache_requests_total" && served.MatchString(labels):
		t.cached += n
	case name == "foregate_shed_total":
		t.shed += n
	}
}
