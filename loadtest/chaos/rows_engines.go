package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// lostRows are figures of engines that are lost.
func lostRows() []Row {
	straight := engines(onTheTarget, map[string]string{"route.policy": "round_robin"})
	row := func(id, fault string, begin, end func(context.Context, *Engine) error) Row {
		return Row{
			ID: id, Fault: fault, Promise: fmt.Sprintf("0 failed; it gets nothing more after %v", maxLost), Added: -1, Setup: straight, Run: lost(begin, end),
		}
	}
	return []Row{
		row("L1", "a backend is dead: its process was killed (SIGKILL)",
			func(_ context.Context, e *Engine) error { e.Kill(); return nil },
			func(ctx context.Context, e *Engine) error { return e.Start(ctx) }),
		row("L2", "a backend hangs: its process is frozen (SIGSTOP)",
			func(_ context.Context, e *Engine) error { return e.Freeze() },
			func(_ context.Context, e *Engine) error { return e.Thaw() }),
		row("L3", "a backend lies: its health and metrics say that all is well, and it answers each request with 500",
			func(ctx context.Context, e *Engine) error { return e.SetFault(ctx, vllmsim.Fault{Status: 500}) },
			func(ctx context.Context, e *Engine) error { return e.SetFault(ctx, vllmsim.Fault{}) }),
	}
}

const (
	maxLost  = 2 * time.Second // until a dead backend gets no requests
	lostSpan = 6 * time.Second // of the fault
	lostLook = 10 * time.Millisecond
)

// lost makes the fault at one of two backends, and measures until when the gateways send requests of users there: how
// long a backend that is of no use any more still gets requests.
func lost(begin, end func(context.Context, *Engine) error) step {
	return func(ctx context.Context, w *Testbed) error {
		sick := w.enginesOf(TargetPool)[0]
		sent := w.sentTo(ctx, sick)
		if sent == 0 {
			return fmt.Errorf("the engine at %s had no request before the fault", sick.addr)
		}
		return w.InjectUntil(ctx, 0, func() error {
			began := time.Now()
			err := begin(ctx, sick)
			for err == nil && time.Since(began) < lostSpan {
				looked := time.Since(began)
				if now := w.sentTo(ctx, sick); now > sent {
					sent, w.Figure = now, looked
				}
				err = w.Hold(ctx, lostLook)
			}
			w.Note("the last request came after %v", round(w.Figure))
			w.Within("it got requests for", w.Figure, maxLost)
			return err
		}, func() error { return end(ctx, sick) }, w.closed)
	}
}

// sentTo is how much all gateways have sent to an engine, in prompt tokens of the requests of users.
func (tb *Testbed) sentTo(ctx context.Context, e *Engine) (sum float64) {
	host, port, _ := net.SplitHostPort(e.addr) // the address of a listener
	for _, g := range tb.Gateways {
		sum += g.sum(ctx, "foregate_prefix_prompt_tokens_total", fmt.Sprintf("backend=%q", host+"-"+port))
	}
	return sum
}

// verifyRows are faults of what the target is asked about drafts, and of engines that are
// lost in mid-answer.
func verifyRows() []Row {
	return []Row{
		{
			ID: "V1", Fault: "both targets' scores fail", Short: true, Added: time.Second, Recover: scoresAgain,
			Promise: "0 failed, 0 cut; each gateway stops scoring after ≤ 11 failures and reports this in its status; scoring again ≤ 30 s after the end",
			Setup:   scored(), Run: scoresFail,
		},
		{
			ID: "V2", Fault: "a target engine cuts its streams, another is killed (SIGKILL), in turn, under streams", Short: true, Added: -1,
			Promise: "0 streams broken: continued on another backend; one [DONE]; usage covers all tokens",
			Setup:   engines(onTheTarget, nil), Run: enginesLost(TargetPool, "target_lost"),
		},
		{
			ID: "V3", Fault: "the same with draft engines, whose drafts are released early", Short: true, Added: -1,
			Promise: "0 streams broken: continued by the target; one [DONE]; usage covers all tokens",
			Setup:   engines(longCounted, map[string]string{"speculation.threshold_nats": "-20", "speculation.holdback_tokens": "8"}),
			Run:     enginesLost(DraftPool, "draft_lost"),
		},
	}
}

const (
	scoresAgain    = 30 * time.Second // for which the breaker of scoring is open
	maxScores      = 3 + 8            // failures that open it, and what is under way at two backends by then
	maxStatusDelay = 3 * time.Second  // of the first fault, in status
)

// scored is a world in which all drafts are checked.
func scored() Setup {
	return Setup{
		Settings: map[string]string{
			"speculation.mode": "verify", "speculation.verify_rule": "lenient", "economy.guard": "off", "cache.mode": "off",
		},
		Load: func(n int) Request {
			r := usualLoad(n)
			r.Tokens = 40
			return r
		},
	}
}

// unasked are reasons of checks for which no engine was asked.
var unasked = []string{"score_closed", "score_busy", "score_too_long", "target_full", "no_backend", "no_ids"}

// scores counts the checks of a gateway so far: those that the target answered, and those
// that it was asked for and failed.
func scores(ctx context.Context, g *Gateway) (reported, failed float64) {
	m, _ := g.Metrics(ctx) // who does not answer has counted none
	_ = m.Each("foregate_verifications_total", func(labels string, n float64) {
		_, reason, _ := strings.Cut(labels, `reason="`)
		reason, _, _ = strings.Cut(reason, `"`)
		switch {
		case !strings.Contains(labels, `verdict="none"`):
			reported += n
		case !slices.Contains(unasked, reason):
			failed += n
		}
	})
	return reported, failed
}

// scoringOff reports whether a gateway says that it has the target score nothing.
func scoringOff(ctx context.Context, g *Gateway) bool {
	var s struct {
		Engines []struct {
			Pool   string `json:"pool"`
			Closed string `json:"scoring_closed"`
		} `json:"engines"`
	}
	_ = g.read(ctx, "/admin/status", &s) // who does not answer says nothing
	for _, e := range s.Engines {
		if e.Pool == TargetPool {
			return e.Closed != ""
		}
	}
	return false
}

// scoresFail lets all scores of the targets go wrong, and no other request.
func scoresFail(ctx context.Context, w *Testbed) error {
	was, ended := map[*Gateway]float64{}, map[*Gateway]float64{}
	more := func(than float64) bool { // than before were scored, at every gateway
		return w.every(func(g *Gateway) bool { reported, _ := scores(ctx, g); return reported > ended[g]+than })
	}
	w.Until(ctx, patience, "drafts are scored before the fault", func() bool { return more(2) })
	for _, g := range w.Gateways {
		_, was[g] = scores(ctx, g)
	}
	set := func(f vllmsim.Fault) error {
		return each(w.Targets, func(s *vllmsim.Server) error { return s.SetFault(f) })
	}
	return w.InjectUntil(ctx, w.Span(2*time.Second, 6*time.Second), func() error {
		err := set(vllmsim.Fault{Score: "error"})
		w.Note("told after %v", round(w.Until(ctx, maxStatusDelay, "status says that nothing is scored", func() bool {
			return w.every(func(g *Gateway) bool { return scoringOff(ctx, g) })
		})))
		out, told := w.Operator(ctx, "status", "--admin", w.Gateways[0].Admin)
		w.Check(told == nil && strings.Contains(out, "SCORING PAUSED"), "foregate status does not say that nothing is scored: %v", told)
		return err
	}, func() error {
		worst := 0.0
		for _, g := range w.Gateways {
			var failed float64
			ended[g], failed = scores(ctx, g)
			worst = max(worst, failed-was[g])
		}
		w.Note("%.0f failed at a gateway at most", worst)
		w.Check(worst >= 3 && worst <= maxScores, "%.0f scores failed at a gateway, want 3 to %d", worst, maxScores)
		return set(vllmsim.Fault{})
	}, func(context.Context) bool { return w.Short() || more(0) }) // half a minute is too long to wait in the short form
}

const (
	countedRate   = 15.0 // streams a second; each lasts for about 1.5 s
	countedTokens = 100
)

// longCounted are streams of a fixed length that tell their usage.
func longCounted(n int) Request {
	return Request{
		Tenant: Tenants[n%2], Priority: priorities[n/3%3], Stream: true, Tokens: countedTokens,
		Fields: map[string]any{"ignore_eos": true, "stream_options": map[string]any{"include_usage": true}},
	}
}

// onTheTarget are such streams of which most are the target's own.
func onTheTarget(n int) Request {
	r := longCounted(n)
	if n%4 != 0 {
		r.Header = http.Header{"X-Tier": {"target"}}
	}
	return r
}

// engines is a world in which all engines are processes, which give about 70 tokens a second to each of many streams.
func engines(load func(int) Request, settings map[string]string) Setup {
	all := map[string]string{"cache.mode": "off", "economy.guard": "off"}
	maps.Copy(all, settings)
	return Setup{Processes: true, Rate: countedRate, Load: load, Settings: all, Sim: func(_ string, o *vllmsim.Options) { o.TimeScale = 1.5 }}
}

// enginesLost has one engine cut its streams and then kills the other, by turns; streams go on elsewhere, and all are whole.
func enginesLost(pool, why string) step {
	return func(ctx context.Context, w *Testbed) error {
		times := 4
		if w.Short() {
			times = 1
		}
		hold, all := w.Span(1500*time.Millisecond, 2*time.Second), w.enginesOf(pool)
		for n := range times {
			cuts, dies := all[n%2], all[(n+1)%2]
			err := w.InjectUntil(ctx, hold,
				func() error { return cuts.SetFault(ctx, vllmsim.Fault{CutAfterBytes: 6000, Rate: 0.5}) },
				func() error { return cuts.SetFault(ctx, vllmsim.Fault{}) }, w.closed)
			if err != nil {
				return err
			}
			if err := w.InjectUntil(ctx, hold, func() error { dies.Kill(); return nil }, func() error { return dies.Start(ctx) }, w.closed); err != nil {
				return err
			}
		}
		w.Load.Stop()
		over, streams, wrong := 0.0, 0, 0
		for _, g := range w.Gateways {
			over += g.sum(ctx, "foregate_midstream_failovers_total", why)
		}
		for _, o := range w.Load.Outcomes() {
			if o.Kind == Answered {
				streams++
				if o.Tokens != countedTokens {
					wrong++
				}
			}
		}
		w.Note("%.0f of %d streams continued", over, streams)
		w.Check(over > 0, "no stream was continued")
		w.Check(wrong == 0, "%d streams told another usage than %d tokens, or none", wrong, countedTokens)
		return nil
	}
}

// breakerRow is of the breakers that replicas share through Redis. Backends are picked by turns, or one that fails
// draws too few requests to be judged soon. The load begins with the fault: evidence of ten seconds counts, and the
// many successes before it would speak for the backend.
func breakerRow() Row {
	return Row{
		ID: "S5", Fault: "a backend answers 500 for a while; only one replica has requests", Short: true, Added: -1, Recover: probedLater,
		Promise: "0 failed; all replicas' breakers open ≤ 1 s after the first; while open no user request, one probe at a time for the whole fleet",
		Setup:   Setup{Drafts: -1, Targets: 3, Rate: -1, Settings: map[string]string{"route.policy": "round_robin"}}, Run: tripped,
	}
}

const (
	maxTripDelay = time.Second      // two exchanges
	probedLater  = 18 * time.Second // open for 2, 4 and 8 s, each a fifth longer; probes and exchanges
	// evidenceLasts is how long what was seen of a backend counts, and a little.
	evidenceLasts = 11 * time.Second
	probedFor     = 8 * time.Second // tried after 2 s and 4 s more; half-open between each
)

// opened waits until every gateway has an open breaker, and tells how long after the first
// the last had.
func (tb *Testbed) opened(ctx context.Context) time.Duration {
	at := make([]time.Duration, len(tb.Gateways))
	began := time.Now()
	var all sync.WaitGroup
	for i, g := range tb.Gateways {
		all.Go(func() {
			for at[i] = 0; openBreakers(ctx, g) == 0 && at[i] < patience && ctx.Err() == nil; at[i] = time.Since(began) {
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	all.Wait()
	tb.Check(slices.Max(at) < patience, "not all breakers opened within %v", patience)
	return slices.Max(at) - slices.Min(at)
}

func tripped(ctx context.Context, w *Testbed) error {
	only := func(first bool) {
		for _, g := range w.Gateways[1:] {
			g.OutOfTurn.Store(first)
		}
	}
	only(true)
	sick := w.Targets[0]
	if err := w.Hold(ctx, evidenceLasts); err != nil {
		return err
	}
	return w.InjectUntil(ctx, 0, func() error {
		if err := sick.SetFault(vllmsim.Fault{Status: 500}); err != nil {
			return err
		}
		w.StartLoad(Traffic{Rate: usualRate}).Phase(During)
		took := w.opened(ctx)
		w.Note("the last %v after the first", round(took))
		w.Within("the last breaker opened after the first", took, maxTripDelay)
		only(false)
		err := w.Hold(ctx, time.Second) // what was on its way has come
		before := sick.State().Requests
		err = errors.Join(err, w.Hold(ctx, probedFor))
		after := sick.State().Requests
		users, probes := after[chatPath]-before[chatPath], after[completionsPath]-before[completionsPath]
		w.Note("%d requests and %d probes in %v", users, probes, probedFor)
		w.Check(users == 0, "%d requests of users met an open breaker", users)
		w.Check(probes >= 1 && probes <= 3, "%d probes, want one to three", probes)
		return err
	}, func() error { return sick.SetFault(vllmsim.Fault{}) }, w.closed)
}
