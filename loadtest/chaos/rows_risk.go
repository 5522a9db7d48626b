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

	riskKeys = "foregate:{fg}:log2:" // begin the names of evidence
)

// promising is a world in which the draft is the target's equal, all drafts score alike, and
// everything is audited: 16 audits certify the one threshold that there is.
func promising() Setup {
	return Setup{
		Rate: promiseRate, Sim: func(_ string, o *vllmsim.Options) { o.Divergence = 0 },
		Settings: map[string]string{
			"speculation.mode": "risk", "risk.warmup": "shadow", "risk.max_disagreement": "0.3", "risk.audit_rate": "1", "economy.guard": "off",
			"speculation.max_concurrent_scores": "16", "risk.cold_start_audits_per_minute": "100000",
			"risk.audit_budget": "0", "risk.max_concurrent_audits": "16", "risk.max_staleness": promiseStale.String(), "cache.mode": "off",
		},
		Load: func(n int) Request {
			r := usualLoad(n)
			r.Prompt = "What is the colour of the sky over a harbour?"
			return r
		},
	}
}

// acceptance tells whether an answer is a draft, and the policy by which that was served.
func acceptance(o *Outcome) (draft bool, policy string) {
	said := o.Header.Get("X-Acceptance")
	_, policy, _ = strings.Cut(said, "policy=")
	return strings.HasPrefix(said, "accepted;"), policy
}

// grants are the policies by which each gateway served the last draft that was decided on since
// a time; "" is one whose last answer was no draft, or that gave none.
func (tb *Testbed) grants(since time.Time) []string {
	last := make([]time.Time, len(tb.Gateways))
	out := make([]string, len(tb.Gateways))
	for _, o := range tb.Load.Outcomes() {
		if o.Kind != Answered || o.At.Before(since) || o.At.Before(last[o.Gateway]) {
			continue
		}
		last[o.Gateway], out[o.Gateway] = o.At, ""
		if draft, policy := acceptance(&o); draft {
			out[o.Gateway] = policy
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

// promised waits until every gateway serves drafts by one threshold of which nothing was known when the evidence
// was lost: for up to a second a gateway goes by what it has read before.
func (tb *Testbed) promised(ctx context.Context, lost time.Time) {
	began := time.Now()
	err := process.Poll(ctx, certifies, func() bool {
		all := tb.grants(time.Now().Add(-time.Second))
		return newer(all[0], lost) && !slices.ContainsFunc(all, func(g string) bool { return g != all[0] })
	})
	tb.Check(err == nil, "drafts are not served by all, certified anew: %v", err)
	tb.Note("certified after %v", round(time.Since(began)))
}

// certificateLost kills the Redis that has the evidence. Before, it forgets what the warm-up has shown: its drafts score
// otherwise, and a threshold that only they reach could not be certified.
func certificateLost(ctx context.Context, w *Testbed) error {
	routes, err := w.server().Client.ZRange(ctx, riskKeys+"routes", 0, -1).Result()
	if err != nil {
		return err
	}
	forgotten := []any{"del", riskKeys + "routes"}
	for _, route := range routes {
		forgotten = append(forgotten, riskKeys+"of:"+route, riskKeys+"state:"+route)
	}
	if err := w.server().do(ctx, forgotten...); err != nil {
		return err
	}
	w.promised(ctx, time.Now())
	var died time.Time
	return w.InjectUntil(ctx, w.Span(2500*time.Millisecond, 5*time.Second), func() error {
		died = time.Now()
		return kill(ctx, w)
	}, func() error {
		w.lateDrafts(died)
		restarted := time.Now() // empty
		if err := start(ctx, w); err != nil {
			return err
		}
		err := w.set(ctx, w.Settings)
		w.promised(ctx, restarted)
		return err
	}, w.Shared)
}

// lateDrafts checks that no draft was served by a certificate that was too old.
func (tb *Testbed) lateDrafts(died time.Time) {
	var last time.Duration
	bypassed := 0
	for _, o := range tb.Load.Outcomes() {
		draft, _ := acceptance(&o)
		switch since := o.At.Sub(died); {
		case o.Kind != Answered || since < 0:
		case draft:
			last = max(last, since)
		default:
			bypassed++
		}
	}
	tb.Note("the last draft was asked for %v after Redis' end; %d answers without", round(last), bypassed)
	tb.Within("a draft was served that was asked for after Redis' end", last, promiseStale)
	tb.Check(bypassed > 0, "no answer was without a draft")
}
