package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Operations are what operators do to a fleet that serves: rows of a table of their own, in
// which every request is accounted for. In addition to what holds in every row, each answer
// must be what the engines say to its prompt, to the letter, and tell its tokens rightly.
func Operations() []Row {
	return append([]Row{
		{
			ID: "O1", Fault: "rolling restart: SIGTERM and start with the same file, one replica after the other", Short: true, Added: maxAdded,
			Promise: "0 lost, 0 cut, 0 retried on another replica; one replica stopped at a time; exit 0", Setup: operating(), Run: restartedInTurn,
		},
		{
			ID: "O2", Fault: "rolling upgrade: a file with one more backend, route and tenant, and a setting changed while one replica drains, one runs the new file and one the old", Short: true, Added: maxAdded,
			Promise: "as O1; old and new replicas share state; the setting in force on all ≤ 1 s; all serve the new route, tenant and backend at the end", Setup: upgradable(), Run: upgradedInTurn,
		},
	}, drainRows()...)
}

const (
	operatedRate  = 20.0 // requests a second
	maxAdded      = time.Second
	briefTokens   = 16
	longTokens    = 160 // of a stream; 1.7 s
	settingSpread = time.Second
)

// pace is how long things take in an operation: drain.delay must outlast what a load
// balancer needs to notice, and is outlasted by some streams.
type pace struct {
	delay, grace, rest time.Duration
	checks             Checks
}

// paceOf is as in front of real fleets, or as much faster as the short form needs it.
func paceOf(short bool) pace {
	if short {
		return pace{delay: time.Second, grace: 10 * time.Second, rest: 100 * time.Millisecond, checks: Checks{Every: 200 * time.Millisecond, Falls: 2, Rises: 2, Tries: 1}}
	}
	return pace{delay: 4 * time.Second, grace: 25 * time.Second, rest: 2 * time.Second, checks: Checks{Every: time.Second, Falls: 2, Rises: 2, Tries: 1}}
}

// operating is the world of operations.
func operating() Setup {
	p := &pace{}
	return Setup{
		Rate: operatedRate, Load: operatedLoad, Sim: alike, Settings: map[string]string{"cache.mode": "off", "economy.guard": "off"},
		Prepare: func(w *Testbed) error {
			*p = paceOf(w.Short())
			_, err := promptsByLength()
			return err
		},
		Config: func(_ int, file map[string]any) { p.write(file) },
	}
}

// write puts the drain into a configuration.
func (p *pace) write(file map[string]any) {
	file["drain"] = map[string]any{"delay": p.delay.String(), "grace": p.grace.String()}
}

// alike has drafts say what the target says, so that there is one right answer to each
// prompt, at about 93 tokens a second for each stream.
func alike(o *vllmsim.Options) { o.TimeScale, o.Divergence = 2, 0 }

// operatedLoad is long and short streams and JSON, all three priorities, two tenants; some
// requests are for the target alone.
func operatedLoad(n int) Request {
	kind := n % 8
	tokens := briefTokens
	if kind == 0 || kind == 4 {
		tokens = longTokens
	}
	return operatedRequest(n, tokens, kind < 3 || kind == 4 || kind == 5, kind == 4 || kind == 6)
}

// targetLoad is short and for the target alone.
func targetLoad(n int) Request { return operatedRequest(n, briefTokens, false, true) }

// operatedRequest is request n.
func operatedRequest(n, tokens int, stream, target bool) Request {
	r := operated(prompt(n, tokens), tokens)
	r.Tenant, r.Priority, r.Stream = Tenants[n%2], [...]string{"high", "normal", "low"}[n/8%3], stream
	if stream {
		r.Fields = map[string]any{"stream_options": map[string]any{"include_usage": true}}
	}
	if target {
		r.Header = http.Header{"X-Tier": {"target"}}
	}
	return r
}

// steps are what happens besides while replicas are restarted in turn; either may be nil.
type steps struct {
	leaving func(i int) error // replica i was told to end, and drains
	away    func(i int) error // it has ended, and is not started yet
}

// roll restarts the replicas in turn, each as soon as the load balancer has the one before
// in turn again.
func (w *Testbed) roll(ctx context.Context, s steps) error {
	p := paceOf(w.Short())
	var streams sync.WaitGroup
	defer streams.Wait()
	turns := w.BalanceBy(p.checks)
	w.injections++
	w.Phase(During)
	began, longest, outlast := time.Now(), time.Duration(0), 0
	for i, g := range w.Gateways {
		if err := w.Hold(ctx, p.rest); err != nil {
			return err
		}
		if err := w.through(ctx, &streams, []*Gateway{g}, beyond(p.delay), false); err != nil {
			return err
		}
		told := time.Now()
		if err := w.restart(ctx, i, s); err != nil {
			return err
		}
		w.Until(ctx, 10*p.checks.Every, "the load balancer asks it again", func() bool { return !g.OutOfTurn.Load() })
		longest = max(longest, time.Since(told))
		for _, l := range w.loads {
			outlast += outlasted(l.Outcomes(), g.Number, told, p.delay)
		}
	}
	fewest, window := turns.Seen()
	w.Note("%d replicas in %v, one in %v at most; not ready for %v at most; %d streams went on for longer than the drain delay of %v",
		len(w.Gateways), round(time.Since(began)), round(longest), round(window), outlast, p.delay)
	if fewest < len(w.Gateways)-1 {
		w.Fail("only %d replicas were in turn at a moment", fewest)
	}
	if outlast == 0 {
		w.Fail("no stream outlasted the drain delay: the row shows nothing")
	}
	for _, l := range w.loads {
		if n := l.Elsewhere(); n > 0 {
			w.Fail("%d connections were refused: the drain delay was over before the load balancer knew", n)
		}
	}
	return nil
}

// restart ends one replica in order and starts it again.
func (w *Testbed) restart(ctx context.Context, i int, s steps) error {
	g := w.Gateways[i]
	if err := g.Terminate(); err != nil {
		return err
	}
	if s.leaving != nil {
		if err := s.leaving(i); err != nil {
			return err
		}
	}
	if err := process.Poll(ctx, drainPatience, func() bool { w.failovers.look(ctx, w.Gateways); return !g.Alive() }); err != nil {
		return fmt.Errorf("replica %d does not end: %w", i, err)
	}
	if err := g.Ended(ctx); err != nil {
		w.Fail("replica %d: %v", i, err)
	}
	if s.away != nil {
		if err := s.away(i); err != nil {
			return err
		}
	}
	return g.Start(ctx)
}

// drainPatience is how long a replica is waited for that was told to end; its grace is
// shorter.
const drainPatience = time.Minute

func restartedInTurn(ctx context.Context, w *Testbed) error {
	if err := w.roll(ctx, steps{}); err != nil {
		return err
	}
	return w.sharedAgain(ctx)
}

// sharedAgain waits until all replicas share, and ends what counts as during the operation.
func (w *Testbed) sharedAgain(ctx context.Context) error {
	return w.InjectUntil(ctx, 0, func() error { return nil }, func() error { return nil }, w.Shared)
}

// newRoute and newTenant are what an upgrade brings beside a backend.
const (
	newRoute  = RouteModel + "-new"
	newTenant = "initech"
)

// upgradable is the world of an upgrade: the last target is in the new file only.
func upgradable() Setup {
	s := operating()
	was := s.Config
	s.Targets = 3
	s.Config = func(i int, file map[string]any) {
		was(i, file)
		pool := targetsOf(file)
		all, _ := pool["backends"].([]string) // made by Testbed.config
		pool["backends"] = all[:len(all)-1]
	}
	return s
}

func targetsOf(file map[string]any) map[string]any {
	pools, _ := file["pools"].(map[string]any)    // made by Testbed.config
	pool, _ := pools[TargetPool].(map[string]any) // as above
	return pool
}

// upgrade is the new file of replica i.
func (w *Testbed) upgrade(i int) map[string]any {
	file := w.config(i)
	pool := targetsOf(file)
	old, _ := pool["backends"].([]string) // as above
	pool["backends"] = append(slices.Clone(old), w.Targets[len(old)].URL())
	routes, _ := file["routes"].([]any) // as above
	file["routes"] = append(routes, map[string]any{"model": newRoute, "draft": DraftPool, "target": TargetPool, "same_tokenizer": true})
	tenants, _ := file["tenants"].([]any) // as above
	file["tenants"] = append(tenants, map[string]any{"id": newTenant, "keys_sha256": []string{KeyHash(newTenant)}})
	return file
}

// upgradedInTurn restarts with new files, and changes a setting in the middle, as operators
// do both.
func upgradedInTurn(ctx context.Context, w *Testbed) error {
	const setting, value = "speculation.holdback_ms", "1234" // without it 1000
	err := w.roll(ctx, steps{
		leaving: func(i int) error {
			if i != 1 {
				return nil
			}
			if !w.Shared(ctx) {
				w.Until(ctx, follows, "old and new replicas share", func() bool { return w.Shared(ctx) })
			}
			took, err := w.changeSetting(ctx, []*Gateway{w.Gateways[0], w.Gateways[2]}, setting, value)
			w.Note("the setting in force on the new replica and on the old one after %v", round(took))
			return err
		},
		away: func(i int) error {
			g := w.Gateways[i]
			if err := g.Configure(w.upgrade(i)); err != nil {
				return err
			}
			_, err := w.Operator(ctx, "check", g.file)
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := w.sharedAgain(ctx); err != nil {
		return err
	}
	for _, g := range w.Gateways {
		if all, err := g.inForce(ctx); err != nil || all[setting] != value {
			w.Fail("replica %d has %s %q at the end: %v", g.Number, setting, all[setting], err)
		}
		r := operated(prompt(0, briefTokens), briefTokens)
		r.Fields, r.Tenant = map[string]any{"model": newRoute}, newTenant
		o := w.Load.Send(g, r)
		if w.Load.Keep(o); o.Kind != Answered {
			w.Fail("replica %d does not serve the new route to the new tenant: %s %s", g.Number, o.Kind, o.Detail)
		}
	}
	fresh := w.Targets[len(w.Targets)-1]
	w.Until(ctx, follows, "the new backend serves", func() bool { return fresh.State().Requests[chatPath] > 0 })
	return nil
}

// Operator runs the gateway's own command as an operator does, and returns what it prints.
func (w *Testbed) Operator(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, w.opts.Gateway, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("foregate %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// changeSetting changes a setting by the operators' command, and tells how long after that it was in
// force at gateways.
func (w *Testbed) changeSetting(ctx context.Context, gateways []*Gateway, name, value string) (time.Duration, error) {
	if _, err := w.Operator(ctx, "settings", "set", "-c", gateways[0].file, "--because", "an operation of the lab", name+"="+value); err != nil {
		return 0, err
	}
	w.due++
	return w.Until(ctx, settingSpread, name+" is in force", func() bool {
		return !slices.ContainsFunc(gateways, func(g *Gateway) bool {
			all, err := g.inForce(ctx)
			return err != nil || all[name] != value
		})
	}), nil
}
