package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// drainRows take a backend away from a fleet that serves.
func drainRows() []Row {
	released := taken()
	released.Settings["speculation.threshold_nats"], released.Settings["speculation.holdback_tokens"] = "-20", "8" // drafts are streamed from their first tokens on
	return []Row{
		{
			ID: "O3", Fault: "a backend drained by POST /admin/drain at one replica, stopped when idle, started and undrained at another replica", Short: true, Added: maxAdded,
			Promise: "no new request on it from 1 s after the drain, from any replica; its streams end there; 0 lost, 0 cut, 0 continued elsewhere; serves again ≤ 5 s", Setup: taken(), Run: drainedInOrder,
		},
		{
			ID: "O4", Fault: "a spot notice for a target and a draft machine by POST /admin/spot; both are killed (SIGKILL) at the deadline, with longer streams running", Short: true, Added: maxAdded,
			Promise: "no new request on them from 1 s after the notice; 0 lost, 0 cut: their streams continue on other backends", Setup: released, Run: spotTaken,
		},
	}
}

const (
	drainedFor  = time.Second     // after an order, nobody sends anything new
	backServing = 5 * time.Second // after undrain; who is new gets a part of its share at first
	emptyWithin = 30 * time.Second

	spotTargets = 3
	spotDrafts  = 2
	runThrough  = 4 // streams of each gateway that are longer than what is left to a process
)

// taken is a world in which all engines are processes: three targets, two drafts.
func taken() Setup {
	s := operating()
	s.Processes, s.Drafts, s.Targets = true, spotDrafts, spotTargets
	return s
}

// Order gives an operator's order to one replica; all must have been told.
func (g *Gateway) Order(ctx context.Context, what, body string) error {
	status, text, err := post(ctx, g.Admin()+"/admin/"+what, body)
	if err != nil {
		return err
	}
	var done struct{ Shared bool }
	if err := json.Unmarshal(text, &done); err != nil || status != http.StatusOK || !done.Shared {
		return fmt.Errorf("POST /admin/%s: %d: %s", what, status, text)
	}
	return nil
}

// views reports how many gateways say that an engine is in a state.
func (w *Testbed) views(ctx context.Context, e *Engine, state string) (n int) {
	for _, g := range w.Gateways {
		var reported struct {
			Pools []struct {
				Backends []struct{ URL, State string }
			}
		}
		page, err := g.Page(ctx, "/admin/backends")
		if err != nil || json.Unmarshal([]byte(page), &reported) != nil {
			continue
		}
		for _, p := range reported.Pools {
			for _, b := range p.Backends {
				if b.State == state && b.URL == "http://"+e.addr {
					n++
				}
			}
		}
	}
	return n
}

// through sends streams that go on for long to gateways, a few to each, and keeps what becomes
// of them in the load; it returns when all have begun. draft says whether drafts are wanted.
func (w *Testbed) through(ctx context.Context, all *sync.WaitGroup, to []*Gateway, tokens int, draft bool) error {
	var begun atomic.Int64
	n := runThrough * len(to)
	for i := range n {
		r := operatedRequest(i, tokens, true, !draft)
		r.OnText = func(chunk int) {
			if chunk == 1 {
				begun.Add(1)
			}
		}
		all.Go(func() { w.Load.Keep(w.Load.Send(to[i%len(to)], r)) })
	}
	if err := process.Poll(ctx, patience, func() bool { return int(begun.Load()) == n }); err != nil {
		return fmt.Errorf("%d of %d long streams have begun: %w", begun.Load(), n, err)
	}
	return nil
}

// busiest waits until an engine of a pool runs two requests at least, and is the one that
// runs most.
func (w *Testbed) busiest(ctx context.Context, pool string) (found *Engine, err error) {
	if err := process.Poll(ctx, patience, func() bool {
		maximum := 1
		for _, e := range w.Engines {
			if st, err := e.state(ctx); e.Pool == pool && err == nil && st.Running > maximum {
				found, maximum = e, st.Running
			}
		}
		return found != nil
	}); err != nil {
		return nil, fmt.Errorf("no %s engine has two requests under way: %w", pool, err)
	}
	return found, nil
}

// watched is what was seen of an engine after an order.
type watched struct {
	engine   *Engine
	requests int           // requests so far
	last     time.Duration // after the order, the last request that came
	running  int
	aborted  int
}

// watch looks at engines until over, and notes when they were last asked for something.
func watch(ctx context.Context, since time.Time, all []*watched, over func() bool) error {
	return process.Poll(ctx, emptyWithin, func() bool {
		for _, v := range all {
			st, err := v.engine.state(ctx)
			if err != nil {
				return false
			}
			if n := st.Requests[chatPath] + st.Requests[completionsPath]; n > v.requests {
				v.requests, v.last = n, time.Since(since)
			}
			v.running, v.aborted = st.Running+st.Waiting, st.Aborted
		}
		return over()
	})
}

// watching prepares to watch an engine.
func watching(ctx context.Context, e *Engine) (*watched, error) {
	st, err := e.state(ctx)
	return &watched{engine: e, requests: st.Requests[chatPath] + st.Requests[completionsPath], running: st.Running, aborted: st.Aborted}, err
}

// drainedInOrder takes one target out as an operator does before maintenance, and back.
func drainedInOrder(ctx context.Context, w *Testbed) error {
	var streams sync.WaitGroup
	defer streams.Wait()
	w.injections++
	w.Phase(During)
	w.StartLoad(operatedRate, targetLoad).Phase(During)
	if err := w.through(ctx, &streams, w.Gateways, beyond(w.Span(time.Second, 4*time.Second)), false); err != nil {
		return err
	}
	e, err := w.busiest(ctx, TargetPool)
	if err != nil {
		return err
	}
	v, err := watching(ctx, e)
	if err != nil {
		return err
	}
	had, cut := v.running, v.aborted
	began := time.Now()
	if err := w.Gateways[0].Order(ctx, "drain?why=maintenance&backend="+url.QueryEscape("http://"+e.addr), ""); err != nil {
		return err
	}
	minimum := w.Span(2*time.Second, 4*time.Second) // somebody who has not been told would ask it
	if err := watch(ctx, began, []*watched{v}, func() bool { return v.running == 0 && time.Since(began) > minimum }); err != nil {
		return fmt.Errorf("the drained engine is not empty: %w", err)
	}
	w.Note("%d under way at the order; the last new request %v after it; empty after %v at most", had, round(v.last), round(time.Since(began)))
	if v.last > w.TimerLag.Bound(drainedFor) {
		w.Fail("a new request %v after the order", round(v.last))
	}
	if n := w.views(ctx, e, "drained"); n != len(w.Gateways) {
		w.Fail("%d replicas say that it is drained", n)
	}
	if v.aborted != cut {
		w.Fail("%d requests were cut at the drained engine", v.aborted-cut)
	}
	if w.failovers.look(ctx, w.Gateways); w.failovers.sum() > 0 {
		w.Fail("%d answers were carried on with elsewhere", w.failovers.sum())
	}
	return w.maintained(ctx, e)
}

// maintained stops a drained engine, starts it again and has it serve.
func (w *Testbed) maintained(ctx context.Context, e *Engine) error {
	if err := e.run.Stop(); err != nil {
		return err
	}
	if err := w.Hold(ctx, w.Span(time.Second, 3*time.Second)); err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	v, err := watching(ctx, e)
	if err != nil {
		return err
	}
	if err := w.Hold(ctx, w.Span(time.Second, 2*time.Second)); err != nil {
		return err
	}
	if st, err := e.state(ctx); err != nil || st.Requests[chatPath] > 0 {
		w.Fail("it is asked before it was undrained: %d requests, %v", st.Requests[chatPath], err)
	}
	began, last := time.Now(), w.Gateways[len(w.Gateways)-1]
	if err := last.Order(ctx, "undrain?backend="+url.QueryEscape("http://"+e.addr), ""); err != nil {
		return err
	}
	up := w.Until(ctx, drainedFor, "all replicas say that it is up", func() bool { return w.views(ctx, e, "up") == len(w.Gateways) })
	asked := v.requests
	if err := watch(ctx, began, []*watched{v}, func() bool { return v.requests > asked }); err != nil {
		return fmt.Errorf("the undrained engine is asked for nothing: %w", err)
	}
	w.Note("undrained: up on all after %v, its first request after %v", round(up), round(v.last))
	if v.last > w.TimerLag.Bound(backServing) {
		w.Fail("its first request came %v after undrain", round(v.last))
	}
	return w.Hold(ctx, w.Span(0, 2*time.Second))
}

// beyond is how many tokens a stream has that goes on for 1 s longer than d, or more.
func beyond(d time.Duration) int {
	const perSecond = 130 // 93 in a full batch, see alike
	return int((d + time.Second).Seconds() * perSecond)
}

// spotNotice is what a cloud's termination handler posts to a webhook, by a template of its
// own: for aws-node-termination-handler WEBHOOK_TEMPLATE with these fields.
func spotNotice(e *Engine, deadline time.Duration) string {
	body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // strings and a number
		"text":    "[NTH][Instance Interruption] EventID: spot-itn-1 - Kind: SPOT_ITN - Instance: i-0123456789abcdef0 - Node: " + e.addr,
		"backend": e.addr, "deadline_seconds": deadline.Seconds(),
	})
	return string(body)
}

// spotTaken has a target's and a draft's machine go at the end of a notice.
func spotTaken(ctx context.Context, w *Testbed) error {
	deadline := w.Span(2*time.Second, 4*time.Second)
	var streams sync.WaitGroup
	defer streams.Wait()
	w.injections++
	w.Phase(During)
	for _, draft := range []bool{false, true} {
		if err := w.through(ctx, &streams, w.Gateways, beyond(deadline+time.Second/2), draft); err != nil {
			return err
		}
	}
	var all []*watched
	for _, pool := range []string{TargetPool, DraftPool} {
		e, err := w.busiest(ctx, pool)
		if err != nil {
			return err
		}
		v, err := watching(ctx, e)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	began := time.Now()
	for _, v := range all {
		if err := w.Gateways[0].Order(ctx, "spot", spotNotice(v.engine, deadline)); err != nil {
			return err
		}
	}
	if err := watch(ctx, began, all, func() bool { return time.Since(began) > deadline }); err != nil {
		return err
	}
	var lost []string
	for i, v := range all {
		v.engine.Kill()
		lost = append(lost, fmt.Sprintf("%d at the %s", v.running, []string{"target", "draft"}[i]))
		if v.last > w.TimerLag.Bound(drainedFor) {
			w.Fail("a new request %v after the notice", round(v.last))
		}
	}
	killed := time.Now()
	streams.Wait()
	w.Note("notice of %v; the last new request %v after it; killed with %s under way; the last of their streams was whole %v later", deadline,
		round(slices.Max([]time.Duration{all[0].last, all[1].last})), strings.Join(lost, ", "), round(time.Since(killed)))
	if all[0].running == 0 || all[1].running == 0 {
		w.Fail("an engine was killed that had nothing under way: the row shows nothing")
	}
	if w.failovers.look(ctx, w.Gateways); w.failovers.sum() == 0 {
		w.Fail("nothing was carried on with: the row shows nothing")
	}
	return w.Hold(ctx, w.Span(0, 3*time.Second))
}
