package chaos

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// riskRow is a fault under the guarantee of mode risk: what audits have certified.
func riskRow() Row {
	return Row{
		ID: "A1", Fault: "Redis killed while drafts are served by a certificate, and restarted empty", Short: true, Added: -1,
		Promise: "0 failed; no draft is served whose decision was made more than 1 s (risk.max_staleness) later; certified again from empty evidence",
		Setup:   promising(), Run: certificateLost,
	}
}

const (
	promiseRate  = 80.0 // requests a second
	promiseStale = time.Second
	certifies    = 30 * time.Second // 200 scores and 16 good audits at that rate are 3 s
)

// promising is a world in which the draft is the target's equal, all drafts score alike, and
// everything is audited: 16 audits certify the one threshold that there is.
func promising() Setup {
	return Setup{
		Rate: promiseRate, Sim: func(o *vllmsim.Options) { o.Divergence = 0 },
		Settings: map[string]string{
			"speculation.mode": "risk", "risk.warmup": "shadow", "risk.max_disagreement": "0.3", "risk.audit_rate": "1", "economy.guard": "off",
			"speculation.max_concurrent_scores": "16", "risk.cold_start_audits_per_minute": "100000",
			"risk.audit_budget": "0", "risk.max_concurrent_audits": "16", "risk.max_staleness": promiseStale.String(), "cache.mode": "off",
		},
		Load: func(n int) Request {
			r := usualLoad(n)
			r.Prompt, r.Fields = "What is the colour of the sky over a harbour?", map[string]any{"temperature": 0}
			return r
		},
	}
}

// grants are the policies by which each gateway served the last draft that was decided on since
// a time; "" is one whose last answer was no draft, or that gave none.
func (w *Testbed) grants(since time.Time) []string {
	last := make([]time.Time, len(w.Gateways))
	out := make([]string, len(w.Gateways))
	for _, o := range w.Load.Outcomes() {
		if o.Kind != Answered || o.At.Before(since) || o.At.Before(last[o.Gateway]) {
			continue
		}
		last[o.Gateway], out[o.Gateway] = o.At, ""
		if accepted := o.Header.Get("X-Acceptance"); strings.HasPrefix(accepted, "accepted;") {
			_, out[o.Gateway], _ = strings.Cut(accepted, "policy=")
		}
	}
	return out
}

// newer reports whether the grid of a policy was placed after a time: its version is Redis' time in µs.
func newer(policy string, than time.Time) bool {
	version, _, _ := strings.Cut(strings.TrimPrefix(policy, "g"), ".")
	micros, err := strconv.ParseInt(version, 10, 64)
	return err == nil && micros > than.UnixMicro()
}

// afresh forgets what the warm-up has shown: its drafts score otherwise, and a threshold that only
// they reach could not be certified. It tells when that was done.
func (w *Testbed) afresh(ctx context.Context) (time.Time, error) {
	c := w.Redis.Servers[0].Client
	routes, err := c.ZRange(ctx, riskKeys+"routes", 0, -1).Result()
	if err != nil {
		return time.Time{}, err
	}
	keys := []string{riskKeys + "routes"}
	for _, route := range routes {
		keys = append(keys, riskKeys+"of:"+route, riskKeys+"state:"+route)
	}
	err = c.Del(ctx, keys...).Err()
	return time.Now(), err
}

// promised waits until every gateway serves drafts by one threshold of which nothing was known when the evidence
// was lost: for up to a second a gateway goes by what it has read before.
func (w *Testbed) promised(ctx context.Context, lost time.Time) {
	began := time.Now()
	err := process.Poll(ctx, certifies, func() bool {
		all := w.grants(time.Now().Add(-time.Second))
		return newer(all[0], lost) && !slices.ContainsFunc(all, func(g string) bool { return g != all[0] })
	})
	if err != nil {
		w.Fail("drafts are not served by all, certified anew: %v", err)
	}
	w.Note("certified after %v", round(time.Since(began)))
}

// certificateLost kills the Redis that has the evidence.
func certificateLost(ctx context.Context, w *Testbed) error {
	lost, err := w.afresh(ctx)
	if err != nil {
		return err
	}
	w.promised(ctx, lost)
	s := w.Redis.Servers[0]
	var died time.Time
	return w.InjectUntil(ctx, w.Span(2500*time.Millisecond, 5*time.Second), func() error {
		died = time.Now()
		return s.Kill()
	}, func() error {
		w.lateDrafts(died)
		restarted := time.Now() // empty
		if err := s.Start(ctx); err != nil {
			return err
		}
		if err := w.set(ctx, w.Settings); err != nil {
			return err
		}
		w.promised(ctx, restarted)
		return nil
	}, w.Shared)
}

// lateDrafts checks that no draft was served by a certificate that was too old.
func (w *Testbed) lateDrafts(died time.Time) {
	var last time.Duration
	bypassed := 0
	for _, o := range w.Load.Outcomes() {
		since := o.At.Sub(died)
		switch reported := o.Header.Get("X-Acceptance"); {
		case o.Kind != Answered || since < 0:
		case strings.HasPrefix(reported, "accepted;"):
			last = max(last, since)
		default:
			bypassed++
		}
	}
	w.Note("the last draft was asked for %v after Redis' end; %d answers without", round(last), bypassed)
	if last > w.TimerLag.Bound(promiseStale) {
		w.Fail("a draft was served that was asked for %v after Redis' end, promised %v", last, promiseStale)
	}
	if bypassed == 0 {
		w.Fail("no answer was without a draft")
	}
}

// riskKeys is what the names of evidence begin with.
const riskKeys = "foregate:{fg}:log1:"
