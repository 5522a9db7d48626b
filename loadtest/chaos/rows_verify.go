package chaos

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

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
			Setup:   engines(onTheTarget, nil), Run: enginesLost(TargetPool),
		},
		{
			ID: "V3", Fault: "the same with draft engines, whose drafts are released early", Short: true, Added: -1,
			Promise: "0 streams broken: continued by the target; one [DONE]; usage covers all tokens",
			Setup:   engines(longCounted, map[string]string{"speculation.threshold_nats": "-20", "speculation.holdback_tokens": "8"}),
			Run:     enginesLost(DraftPool),
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
	m, err := g.Metrics(ctx)
	if err != nil {
		return 0, 0
	}
	for labels, n := range m.Series("foregate_verifications_total") {
		_, reason, _ := strings.Cut(labels, `reason="`)
		reason, _, _ = strings.Cut(reason, `"`)
		switch {
		case !strings.Contains(labels, `verdict="none"`):
			reported += n
		case !slices.Contains(unasked, reason):
			failed += n
		}
	}
	return reported, failed
}

// scoringOff reports whether a gateway says that it has the target score nothing.
func scoringOff(ctx context.Context, g *Gateway) bool {
	page, err := g.Page(ctx, "/admin/status")
	var s struct {
		Engines []struct {
			Pool   string `json:"pool"`
			Closed string `json:"scoring_closed"`
		} `json:"engines"`
	}
	if err != nil || json.Unmarshal([]byte(page), &s) != nil {
		return false
	}
	for _, e := range s.Engines {
		if e.Pool == TargetPool {
			return e.Closed != ""
		}
	}
	return false
}

// every reports whether it holds of every gateway.
func (w *Testbed) every(ok func(g *Gateway) bool) bool {
	for _, g := range w.Gateways {
		if !ok(g) {
			return false
		}
	}
	return true
}

// scoresBegin waits until every gateway has had the target's word on drafts.
func (w *Testbed) scoresBegin(ctx context.Context) {
	w.Until(ctx, 10*time.Second, "drafts are scored before the fault", func() bool {
		return w.every(func(g *Gateway) bool { reported, _ := scores(ctx, g); return reported >= 3 })
	})
}

// waitForScoringOff waits until every gateway says that nothing is scored, also to an operator.
func (w *Testbed) waitForScoringOff(ctx context.Context) {
	took := w.Until(ctx, maxStatusDelay, "status says that nothing is scored", func() bool {
		return w.every(func(g *Gateway) bool { return scoringOff(ctx, g) })
	})
	out, err := w.Operator(ctx, "status", "--admin", w.Gateways[0].Admin())
	if err != nil || !strings.Contains(out, "SCORING PAUSED") {
		w.Fail("foregate status does not say that nothing is scored: %v", err)
	}
	w.Note("told after %v", round(took))
}

// scoresFail lets all scores of the targets go wrong, and no other request.
func scoresFail(ctx context.Context, w *Testbed) error {
	w.scoresBegin(ctx)
	was, ended := map[*Gateway]float64{}, map[*Gateway]float64{}
	for _, g := range w.Gateways {
		_, was[g] = scores(ctx, g)
	}
	set := func(f vllmsim.Fault) error {
		for _, s := range w.Targets {
			if err := s.SetFault(f); err != nil {
				return err
			}
		}
		return nil
	}
	well := func(ctx context.Context) bool { // scores are heard again
		return w.every(func(g *Gateway) bool { reported, _ := scores(ctx, g); return reported > ended[g] })
	}
	if w.Short() {
		well = func(context.Context) bool { return true } // half a minute is too long to wait
	}
	return w.InjectUntil(ctx, w.Span(2*time.Second, 6*time.Second), func() error {
		if err := set(vllmsim.Fault{Score: "error"}); err != nil {
			return err
		}
		w.waitForScoringOff(ctx)
		return nil
	}, func() error {
		worst := 0.0
		for _, g := range w.Gateways {
			var failed float64
			ended[g], failed = scores(ctx, g)
			worst = max(worst, failed-was[g])
		}
		w.Note("%.0f failed at a gateway at most", worst)
		if worst < 3 || worst > maxScores {
			w.Fail("%.0f scores failed at a gateway, want 3 to %d", worst, maxScores)
		}
		return set(vllmsim.Fault{})
	}, well)
}

const (
	countedRate   = 15.0 // streams a second; each lasts for about 1.5 s
	countedTokens = 100
)

// slowly has simulators give about 70 tokens a second to each of many streams.
func slowly(o *vllmsim.Options) { o.TimeScale = 1.5 }

// longCounted are streams of a fixed length that tell their usage.
func longCounted(n int) Request {
	return Request{
		Tenant: Tenants[n%2], Priority: [...]string{"high", "normal", "low"}[n/3%3], Stream: true, Tokens: countedTokens,
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

// engines is a world in which all engines are processes.
func engines(load func(int) Request, settings map[string]string) Setup {
	all := map[string]string{"cache.mode": "off", "economy.guard": "off"}
	maps.Copy(all, settings)
	return Setup{Processes: true, Rate: countedRate, Load: load, Settings: all, Sim: slowly}
}

// enginesOf are a pool's engines.
func (w *Testbed) enginesOf(pool string) []*Engine {
	return slices.DeleteFunc(slices.Clone(w.Engines), func(e *Engine) bool { return e.Pool != pool })
}

// enginesLost has one engine cut its streams and then kills the other, by turns.
func enginesLost(pool string) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		times := 1
		if !w.Short() {
			times = 4
		}
		hold := w.Span(1500*time.Millisecond, 2*time.Second)
		for n := range times {
			all := w.enginesOf(pool)
			cuts, dies := all[n%2], all[(n+1)%2]
			err := w.InjectUntil(ctx, hold,
				func() error { return cuts.SetFault(ctx, vllmsim.Fault{CutAfterBytes: 6000, Rate: 0.5}) },
				func() error { return cuts.SetFault(ctx, vllmsim.Fault{}) }, w.Closed)
			if err != nil {
				return err
			}
			err = w.InjectUntil(ctx, hold, func() error { dies.run.Kill(); return nil }, func() error { return dies.Start(ctx) }, w.Closed)
			if err != nil {
				return err
			}
		}
		w.Load.Stop()
		w.carriedOn(ctx, pool)
		return nil
	}
}

// carriedOn checks that streams were carried on with, and that all are whole.
func (w *Testbed) carriedOn(ctx context.Context, pool string) {
	why, over := map[string]string{DraftPool: "draft_lost", TargetPool: "target_lost"}[pool], 0.0
	for _, g := range w.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil {
			w.Fail("gateway %d: %v", g.Number, err)
		}
		over += m.Sum("foregate_midstream_failovers_total", why)
	}
	streams, uncounted, wrong := 0, 0, 0
	for _, o := range w.Load.Outcomes() {
		if o.Kind != Answered {
			continue
		}
		streams++
		switch {
		case o.Tokens == 0:
			uncounted++
		case o.Tokens != countedTokens:
			wrong++
		}
	}
	w.Note("%.0f of %d streams carried on with", over, streams)
	if over == 0 {
		w.Fail("no stream was carried on with")
	}
	if uncounted > 0 || wrong > 0 {
		w.Fail("%d streams told no usage, %d another one than %d tokens", uncounted, wrong, countedTokens)
	}
}
