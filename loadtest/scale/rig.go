package scale

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/loadtest/live"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	apiKey      = "of-the-load"
	tenant      = "load"
	tenantRPM   = 100_000_000 // never reached
	engineScale = 100         // engines must not be what is waited for
	answerMax   = 4           // tokens of an answer
	senders     = 32          // requests in flight at most

	knownTimeout = time.Minute     // for replicas to know their engines
	settleTime   = 2 * time.Second // from then until Redis' counts are of a fleet that runs
	stopGrace    = 5 * time.Second
	pollEvery    = 20 * time.Millisecond
)

// rig is a fleet that runs.
type rig struct {
	fleet    Fleet
	engines  []*vllmsim.Server
	replicas []*app.App
	control  stores.Stores // a connection for questions
	redis    *process.Process
	client   *http.Client
	silence  []func() // each takes Redis from a replica
	cleanups []func()

	answered atomic.Int64
	failed   atomic.Int64 // requests without an answer
	first    atomic.Pointer[error]
}

// onStop registers f to be called by stop, in reverse order.
func (g *rig) onStop(f func()) { g.cleanups = append(g.cleanups, f) }

func (g *rig) stop() {
	for _, f := range slices.Backward(g.cleanups) {
		f()
	}
}

// pool names a backend's pool.
func (f *Fleet) pool(backend int) string { return "pool" + strconv.Itoa(backend%f.Pools) }

// start starts a fleet and waits until it knows its engines. dir is for Redis' files. What was started before an error is
// stopped.
func start(ctx context.Context, f Fleet, dir string) (g *rig, err error) {
	g = &rig{fleet: f, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}}
	g.onStop(g.client.CloseIdleConnections)
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	var address string
	if g.redis, address, err = live.StartRedis(ctx, dir); err != nil {
		return nil, err
	}
	g.onStop(func() { _ = g.redis.Stop() }) // it keeps nothing
	text, err := g.configure(address)
	if err != nil {
		return nil, err
	}
	var closeStores func()
	if g.control, closeStores, err = stores.Open(config.Redis{URL: address}); err != nil {
		return nil, err
	}
	g.onStop(closeStores)
	settings := []any{"cache.mode", "off"}
	if f.Cached {
		settings[1] = "on"
	}
	if err := g.control.Control.HSet(ctx, "foregate:settings", settings...).Err(); err != nil {
		return nil, err
	}
	for range f.Replicas {
		if err := g.startReplica(ctx, text, address); err != nil {
			return nil, err
		}
	}
	return g, process.Poll(ctx, knownTimeout, func() bool {
		return !slices.ContainsFunc(g.replicas, func(a *app.App) bool { return !a.EnginesKnown() || len(a.Status().Replicas) != f.Replicas })
	})
}

// configure starts the engines and returns the configuration of all replicas.
func (g *rig) configure(redis string) ([]byte, error) {
	type pool struct {
		Model    string   `json:"model"`
		Backends []string `json:"backends"`
	}
	type route struct {
		Model  string `json:"model"`
		Target string `json:"target"`
	}
	pools := map[string]*pool{}
	for i := range g.fleet.Backends {
		sim, err := vllmsim.New(vllmsim.Options{Model: "sim", Profile: "h100-8b", Seed: 1, TimeScale: engineScale})
		if err == nil {
			err = sim.Start("127.0.0.1:0")
		}
		if err != nil {
			return nil, err
		}
		g.onStop(func() { _ = sim.Close() }) // it has no state to lose
		g.engines = append(g.engines, sim)
		name := g.fleet.pool(i)
		if pools[name] == nil {
			pools[name] = &pool{Model: "sim"}
		}
		pools[name].Backends = append(pools[name].Backends, sim.URL())
	}
	var routes []route
	for name := range pools {
		routes = append(routes, route{name, name})
	}
	one := map[string]any{"id": tenant, "keys_sha256": []string{fmt.Sprintf("%x", sha256.Sum256([]byte(apiKey)))}}
	if g.fleet.Limited {
		one["rpm"] = tenantRPM
	}
	return json.Marshal(map[string]any{ // JSON is YAML
		"listen": "127.0.0.1:0", "redis": map[string]string{"url": redis}, "pools": pools, "routes": routes, "tenants": []any{one},
		"drain": map[string]string{"delay": "0s", "grace": stopGrace.String()},
	})
}

// startReplica starts one more replica, with connections of its own.
func (g *rig) startReplica(ctx context.Context, text []byte, address string) error {
	file, err := config.Parse("scale.yaml", text)
	if err != nil {
		return err
	}
	opened, closeStores, err := stores.Open(config.Redis{URL: address})
	if err != nil {
		return err
	}
	g.onStop(closeStores)
	a, err := app.New(ctx, app.Options{File: file, Stores: opened, Admin: "127.0.0.1:0", Version: "scale"})
	if err != nil {
		return err
	}
	if err := a.Start(); err != nil {
		return err
	}
	g.onStop(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		a.Stop(ctx)
	})
	g.replicas, g.silence = append(g.replicas, a), append(g.silence, closeStores)
	return nil
}

// counts are Redis' own, since it was started.
func (g *rig) counts(ctx context.Context) (c Cost, err error) {
	page, err := g.control.Control.Info(ctx, "stats", "cpu", "commandstats").Result()
	if err != nil {
		return c, err
	}
	return parseInfo(page)
}

// parseInfo reads the sections stats, cpu and commandstats of INFO.
func parseInfo(page string) (c Cost, err error) {
	into := map[string]*float64{"total_commands_processed": &c.Commands, "total_net_input_bytes": &c.In, "total_net_output_bytes": &c.Out}
	found := 0
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		at, known := into[name]
		switch {
		case known:
		case name == "used_cpu_sys", name == "used_cpu_user":
			at = &c.Busy
		case name == "cmdstat_evalsha", name == "cmdstat_eval":
			at = &c.Scripts
			calls, rest, _ := strings.Cut(value, ",usec=")
			value, _ = strings.CutPrefix(calls, "calls=")
			rest, _, _ = strings.Cut(rest, ",")
			µs, err := strconv.ParseFloat(rest, 64)
			if err != nil || !(µs >= 0) { // NaN is refused, too
				return Cost{}, fmt.Errorf("INFO says %q", strings.TrimSpace(line))
			}
			c.Exec += µs / 1e6
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0) {
			return Cost{}, fmt.Errorf("INFO says %q", strings.TrimSpace(line))
		}
		*at += n
		found++
	}
	if found < len(into)+2 {
		return Cost{}, errors.New("INFO lacks counts")
	}
	return c, nil
}

// measure lets the fleet run for a while under its load. It returns what Redis did, and the requests that were answered, both a
// second.
func (g *rig) measure(ctx context.Context, window time.Duration) (c Cost, rate float64, err error) {
	loadCtx, cancel := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	if g.fleet.Requests > 0 {
		load.Go(func() { g.send(loadCtx) })
	}
	if err := wait(ctx, settleTime); err != nil {
		return c, 0, err
	}
	began, answered := time.Now(), g.answered.Load()
	before, err := g.counts(ctx)
	if err != nil {
		return c, 0, err
	}
	if err := wait(ctx, window); err != nil {
		return c, 0, err
	}
	after, err := g.counts(ctx)
	if err != nil {
		return c, 0, err
	}
	took := time.Since(began).Seconds()
	if n := g.failed.Load(); n > 0 {
		return c, 0, fmt.Errorf("%d requests failed, the first with %w", n, *g.first.Load())
	}
	return after.minus(before).times(1 / took), float64(g.answered.Load()-answered) / took, nil
}

// wait waits for a while.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// send sends requests at the fleet's rate until ctx ends, to its replicas and pools in turns. No two are alike.
func (g *rig) send(ctx context.Context) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / g.fleet.Requests))
	defer tick.Stop()
	slots := make(chan struct{}, senders)
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		all.Go(func() {
			defer func() { <-slots }()
			switch err := g.ask(ctx, n); {
			case err == nil:
				g.answered.Add(1)
			case ctx.Err() == nil:
				g.first.CompareAndSwap(nil, &err)
				g.failed.Add(1)
			}
		})
	}
}

// ask sends one request.
func (g *rig) ask(ctx context.Context, n int) error {
	body := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"question %d"}],"max_tokens":%d}`, g.fleet.pool(n), n, answerMax)
	url := "http://" + g.replicas[n%len(g.replicas)].Addr().String() + "/v1/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return err
}
