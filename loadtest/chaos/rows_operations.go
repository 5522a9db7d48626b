package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// operationRows are what operators and clouds do to a fleet that serves. In addition to what holds in every row, each answer
// must be what the engines say to its prompt, to the letter, and tell its tokens rightly.
func operationRows() []Row {
	taken := operating()
	taken.Processes, taken.Targets = true, 3
	taken.Settings["speculation.threshold_nats"], taken.Settings["speculation.holdback_tokens"] = "-20", "8" // drafts are streamed from their first tokens on
	return []Row{
		{
			ID: "O1", Fault: "rolling upgrade: SIGTERM and start, one replica after the other, with a file with one more backend, route and tenant; a setting changed while one replica drains, one runs the new file and one the old", Short: true, Added: maxAdded,
			Promise: "0 lost, 0 cut, 0 retried on another replica; one replica stopped at a time; exit 0; old and new replicas share state; the setting in force on all ≤ 1 s; all serve the new route, tenant and backend at the end", Setup: upgradable(), Run: upgradedInTurn,
		},
		{
			ID: "O2", Fault: "a spot notice for a target and a draft machine by POST /admin/spot; both are killed (SIGKILL) at the deadline, with longer streams running", Short: true, Added: maxAdded,
			Promise: "no new request on them from 1 s after the notice; 0 lost, 0 cut: their streams continue on other backends", Setup: taken, Run: spotTaken,
		},
	}
}

const (
	operatedRate  = 20.0 // requests a second
	maxAdded      = time.Second
	briefTokens   = 16
	longTokens    = 160 // of a stream; 1.7 s
	settingSpread = time.Second
	drainPatience = time.Minute // with a replica that was told to end; its grace is shorter

	drainedFor  = time.Second // after an order, nobody sends anything new
	emptyWithin = 30 * time.Second
	runThrough  = 4 // streams of each gateway that are longer than what is left to a process
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

// operating is the world of operations. Drafts say what the target says, so that there is one right answer to each
// prompt, at about 93 tokens a second for each stream.
func operating() Setup {
	return Setup{
		Accounted: true, Rate: operatedRate, Load: operatedLoad, Settings: map[string]string{"cache.mode": "off", "economy.guard": "off"},
		Sim: func(_ string, o *vllmsim.Options) { o.TimeScale, o.Divergence = 2, 0 },
		Config: func(w *Testbed, _ int, file map[string]any) {
			_, _ = promptsByLength() // takes a while, and what went wrong is told by account
			p := paceOf(w.Short())
			file["drain"] = map[string]any{"delay": p.delay.String(), "grace": p.grace.String()}
		},
	}
}

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

// operatedRequest is request n.
func operatedRequest(n, tokens int, stream, target bool) Request {
	r := Request{Prompt: prompt(n, tokens), Tokens: tokens, Tenant: Tenants[n%2], Priority: priorities[n/8%3], Stream: stream}
	if stream {
		r.Fields = map[string]any{"stream_options": map[string]any{"include_usage": true}}
	}
	if target {
		r.Header = http.Header{"X-Tier": {"target"}}
	}
	return r
}

// roll restarts the replicas in turn, each as soon as the load balancer has the one before
// in turn again. leaving is what happens when a replica was told to end, and drains; away, when it has ended.
func (tb *Testbed) roll(ctx context.Context, leaving, away func(i int) error) error {
	p := paceOf(tb.Short())
	var streams sync.WaitGroup
	defer streams.Wait()
	turns := tb.BalanceBy(p.checks)
	tb.strikes()
	began, longest, outlast := time.Now(), time.Duration(0), 0
	for i, g := range tb.Gateways {
		if err := errors.Join(tb.Hold(ctx, p.rest), tb.through(ctx, &streams, []*Gateway{g}, beyond(p.delay), false)); err != nil {
			return err
		}
		told := time.Now()
		if err := errors.Join(g.Terminate(), leaving(i)); err != nil {
			return err
		}
		if err := process.Poll(ctx, drainPatience, func() bool { tb.continued.look(ctx, tb.Gateways); return !g.Alive() }); err != nil {
			return fmt.Errorf("replica %d does not end: %w", i, err)
		}
		if err := g.Ended(ctx); err != nil {
			tb.Fail("replica %d: %v", i, err)
		}
		if err := errors.Join(away(i), g.Start(ctx)); err != nil {
			return err
		}
		tb.Until(ctx, 10*p.checks.Every, "the load balancer asks it again", func() bool { return !g.OutOfTurn.Load() })
		longest = max(longest, time.Since(told))
		outlast += outlasted(tb.all(), g.Number, told, p.delay)
	}
	fewest, window := turns.seen()
	tb.Note("%d replicas in %v, one in %v at most; not ready for %v at most; %d streams went on for longer than the drain delay of %v",
		len(tb.Gateways), round(time.Since(began)), round(longest), round(window), outlast, p.delay)
	tb.Check(fewest >= len(tb.Gateways)-1, "only %d replicas were in turn at a moment", fewest)
	tb.Check(outlast > 0, "no stream outlasted the drain delay: the row shows nothing")
	for _, l := range tb.loads {
		tb.Check(l.Elsewhere() == 0, "%d connections were refused: the drain delay was over before the load balancer knew", l.Elsewhere())
	}
	return tb.InjectUntil(ctx, 0, nothing, nothing, tb.Shared) // ends what counts as during the operation
}

// outlasted counts streams that were answered at a gateway and went on for longer than d
// after a moment that they met.
func outlasted(all []Outcome, gateway int, moment time.Time, d time.Duration) (n int) {
	for _, o := range all {
		if o.Kind == Answered && o.Stream && o.Gateway == gateway && !o.At.After(moment) && !o.At.Add(o.Total).Before(moment.Add(d)) {
			n++
		}
	}
	return n
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
	s.Config = func(w *Testbed, i int, file map[string]any) {
		was(w, i, file)
		backends(file, w.URLs(TargetPool)[:2])
	}
	return s
}

// backends gives a file's targets other backends.
func backends(file map[string]any, all []string) {
	pools, _ := file["pools"].(map[string]any) // made by Testbed.config
	pools[TargetPool] = map[string]any{"model": RouteModel, "backends": all}
}

// upgrade is the new file of replica i.
func (tb *Testbed) upgrade(i int) map[string]any {
	file := tb.config(i)
	backends(file, tb.URLs(TargetPool))
	routes, _ := file["routes"].([]any) // as above
	file["routes"] = append(routes, map[string]any{"model": newRoute, "draft": DraftPool, "target": TargetPool, "same_tokenizer": true})
	tenants, _ := file["tenants"].([]any) // as above
	file["tenants"] = append(tenants, map[string]any{"id": newTenant, "keys_sha256": []string{KeyHash(newTenant)}})
	return file
}

// upgradedInTurn restarts with new files, and changes a setting in the middle by the operators' command, as operators
// do both.
func upgradedInTurn(ctx context.Context, w *Testbed) error {
	const setting, value = "speculation.holdback_ms", "1234" // without it 1000
	inForce := func(g *Gateway) bool {
		all, err := g.inForce(ctx)
		return err == nil && all[setting] == value
	}
	err := w.roll(ctx, func(i int) error {
		if i != 1 {
			return nil
		}
		if !w.Shared(ctx) {
			w.Until(ctx, follows, "old and new replicas share", func() bool { return w.Shared(ctx) })
		}
		_, err := w.Operator(ctx, "settings", "set", "-c", w.Gateways[0].File, "--because", "an operation of the lab", setting+"="+value)
		w.due++
		w.Note("the setting in force on the new replica and on the old one after %v", round(w.Until(ctx, settingSpread, setting+" is in force", func() bool {
			return inForce(w.Gateways[0]) && inForce(w.Gateways[2])
		})))
		return err
	}, func(i int) error {
		if err := w.Gateways[i].Configure(w.upgrade(i)); err != nil {
			return err
		}
		_, err := w.Operator(ctx, "check", w.Gateways[i].File)
		return err
	})
	if err != nil {
		return err
	}
	for _, g := range w.Gateways {
		w.Check(inForce(g), "replica %d has not %s %s at the end", g.Number, setting, value)
		o := w.Load.Send(g, Request{Prompt: prompt(0, briefTokens), Tokens: briefTokens, Tenant: newTenant, Fields: map[string]any{"model": newRoute}})
		w.Load.Keep(o)
		w.Check(o.Kind == Answered, "replica %d does not serve the new route to the new tenant: %s %s", g.Number, o.Kind, o.Detail)
	}
	w.Until(ctx, follows, "the new backend serves", func() bool { return w.Targets[2].State().Requests[chatPath] > 0 })
	return nil
}

// through sends streams that go on for long to gateways, a few to each, and keeps what becomes
// of them in the load; it returns when all have begun. draft says whether drafts are wanted.
func (tb *Testbed) through(ctx context.Context, all *sync.WaitGroup, to []*Gateway, tokens int, draft bool) error {
	var begun atomic.Int64
	n := runThrough * len(to)
	for i := range n {
		r := operatedRequest(i, tokens, true, !draft)
		r.OnText = func(chunk int) {
			if chunk == 1 {
				begun.Add(1)
			}
		}
		all.Go(func() { tb.Load.Keep(tb.Load.Send(to[i%len(to)], r)) })
	}
	if err := process.Poll(ctx, patience, func() bool { return int(begun.Load()) == n }); err != nil {
		return fmt.Errorf("%d of %d long streams have begun: %w", begun.Load(), n, err)
	}
	return nil
}

// beyond is how many tokens a stream has that goes on for 1 s longer than d, or more.
func beyond(d time.Duration) int {
	const perSecond = 130 // 93 in a full batch, see operating
	return int((d + time.Second).Seconds() * perSecond)
}

// watched is what was seen of an engine after an order.
type watched struct {
	*Engine
	requests int           // requests so far
	last     time.Duration // after the order, the last request that came
	running  int
	aborted  int
}

// busiest waits until an engine of a pool runs two requests at least, and is the one that
// runs most.
func (tb *Testbed) busiest(ctx context.Context, pool string) (*watched, error) {
	var found *watched
	err := process.Poll(ctx, patience, func() bool {
		maximum := 1
		for _, e := range tb.enginesOf(pool) {
			if st, err := e.state(ctx); err == nil && st.Running > maximum {
				found, maximum = &watched{Engine: e, requests: asked(&st), running: st.Running, aborted: st.Aborted}, st.Running
			}
		}
		return found != nil
	})
	if err != nil {
		return nil, fmt.Errorf("no %s engine has two requests under way: %w", pool, err)
	}
	return found, nil
}

// watch looks at engines until over, and notes when they were last asked for something.
func watch(ctx context.Context, since time.Time, all []*watched, over func() bool) error {
	return process.Poll(ctx, emptyWithin, func() bool {
		for _, v := range all {
			st, err := v.state(ctx)
			if err != nil {
				return false
			}
			if n := asked(&st); n > v.requests {
				v.requests, v.last = n, time.Since(since)
			}
			v.running, v.aborted = st.Running+st.Waiting, st.Aborted
		}
		return over()
	})
}

// spotNotice is what a cloud's termination handler posts to a webhook, by a template of its
// own: for aws-node-termination-handler WEBHOOK_TEMPLATE with these fields.
func spotNotice(addr string, deadline time.Duration) string {
	body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // strings and a number
		"text":    "[NTH][Instance Interruption] EventID: spot-itn-1 - Kind: SPOT_ITN - Instance: i-0123456789abcdef0 - Node: " + addr,
		"backend": addr, "deadline_seconds": deadline.Seconds(),
	})
	return string(body)
}

// spotTaken has a target's and a draft's machine go at the end of a notice.
func spotTaken(ctx context.Context, w *Testbed) error {
	deadline := w.Span(2*time.Second, 4*time.Second)
	var streams sync.WaitGroup
	defer streams.Wait()
	w.strikes()
	for _, draft := range []bool{false, true} {
		if err := w.through(ctx, &streams, w.Gateways, beyond(deadline+time.Second/2), draft); err != nil {
			return err
		}
	}
	target, err1 := w.busiest(ctx, TargetPool)
	draft, err2 := w.busiest(ctx, DraftPool)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	all := []*watched{target, draft}
	began := time.Now()
	if err := each(all, func(v *watched) error { return w.Gateways[0].Order(ctx, "spot", spotNotice(v.addr, deadline)) }); err != nil {
		return err
	}
	if err := watch(ctx, began, all, func() bool { return time.Since(began) > deadline }); err != nil {
		return err
	}
	for _, v := range all {
		v.Kill()
		w.Within("a new request after the notice", v.last, drainedFor)
	}
	killed := time.Now()
	streams.Wait()
	w.Note("notice of %v; the last new request %v after it; killed with %d under way at the target, %d at the draft; the last of their streams was whole %v later", deadline,
		round(slices.Max([]time.Duration{target.last, draft.last})), target.running, draft.running, round(time.Since(killed)))
	w.Check(target.running > 0 && draft.running > 0, "an engine was killed that had nothing under way: the row shows nothing")
	w.continued.look(ctx, w.Gateways)
	w.Check(w.continued.sum() > 0, "nothing was continued: the row shows nothing")
	return w.Hold(ctx, w.Span(0, 3*time.Second))
}
