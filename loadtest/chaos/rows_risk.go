package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// riskRows are faults under the promise of mode risk: what audits have certified, and what
// becomes of audits that are under way.
func riskRows() []Row {
	return []Row{
		{
			ID: "A1", Fault: "Redis killed while drafts are served by a certificate, and restarted empty", Short: true, Added: -1,
			Promise: "0 failed; no draft is served whose decision was made more than 1 s (risk.max_staleness) later; certified again from empty evidence",
			Setup:   promising(), Run: certificateLost,
		},
		{
			ID: "A2", Fault: "SIGKILL of a gateway while audits are in progress", Short: true, Added: -1, Tolerated: []string{Unreached, CutSilent},
			Promise: "only its requests in flight are lost; its audits stay bad, none counts twice; the others keep serving drafts, and it does with the same threshold ≤ 2 s after its start",
			Setup:   promising(), Recover: backAgain, Run: auditorKilled,
		},
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
			"speculation.mode": "risk", "risk.warmup": "shadow", "risk.max_wrong_rate": "0.3", "risk.audit_rate": "1", "economy.guard": "off",
			"speculation.max_concurrent_scores": "16", "risk.cold_start_rate": "1", "risk.cold_start_audits_per_minute": "100000",
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
	names, err := c.ZRange(ctx, riskKeys+"index", 0, -1).Result()
	if err != nil {
		return time.Time{}, err
	}
	keys := []string{riskKeys + "index", riskKeys + "log"}
	for _, name := range names {
		keys = append(keys, riskKeys+name)
	}
	err = c.Del(ctx, keys...).Err()
	return time.Now(), err
}

// promised waits until every gateway serves drafts by one threshold of which nothing was known when the evidence
// was lost, and tells which: for up to a second a gateway goes by what it has read before.
func (w *Testbed) promised(ctx context.Context, lost time.Time) (grant string) {
	began := time.Now()
	err := process.Poll(ctx, certifies, func() bool {
		all := w.grants(time.Now().Add(-time.Second))
		grant = all[0]
		return newer(grant, lost) && !slices.ContainsFunc(all, func(g string) bool { return g != grant })
	})
	if err != nil {
		w.Fail("drafts are not served by all, certified anew: %v", err)
	}
	w.Note("certified after %v", round(time.Since(began)))
	return grant
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

// auditorKilled kills a gateway while the targets take their time over audits.
func auditorKilled(ctx context.Context, w *Testbed) error {
	w.Balance()
	lost, err := w.afresh(ctx)
	if err != nil {
		return err
	}
	before := w.promised(ctx, lost)
	slow := func(times float64) error {
		for _, s := range w.Targets {
			if err := s.SetFault(vllmsim.Fault{Slow: times}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := slow(40); err != nil {
		return err
	}
	victim := w.Gateways[0]
	var killed time.Time
	err = w.InjectUntil(ctx, w.Span(time.Second, 3*time.Second), func() error {
		w.Until(ctx, 10*time.Second, "audits are under way", func() bool {
			b, err := w.books(ctx)
			return err == nil && len(b.under) >= 8
		})
		victim.Kill()
		killed = time.Now()
		return slow(0)
	}, func() error {
		w.bereaved(victim.Number, killed, before)
		return victim.Start(ctx)
	}, w.Shared)
	if err != nil {
		return err
	}
	began := time.Now()
	w.Until(ctx, 2*time.Second, "the one that was killed serves drafts by the same threshold", func() bool { return w.grants(began)[0] == before })
	if err := w.Hold(ctx, w.Span(time.Second, 3*time.Second)); err != nil {
		return err
	}
	w.Load.Stop()
	return w.booked(ctx)
}

// bereaved checks that a gateway that was killed took nothing with it but what it had in flight, and that the others
// have served drafts by one threshold since.
func (w *Testbed) bereaved(victim int, killed time.Time, policy string) {
	drafts := 0
	for _, o := range w.Load.Outcomes(During) {
		reported := o.Header.Get("X-Acceptance")
		_, by, _ := strings.Cut(reported, "policy=")
		switch {
		case o.Kind != Answered && (o.Gateway != victim || o.At.After(killed)):
			w.Fail("gateway %d, %v after the end of another: %s", o.Gateway, round(o.At.Sub(killed)), o.Kind)
		case o.Kind != Answered || o.At.Before(killed):
		case by != policy || !strings.HasPrefix(reported, "accepted;"):
			w.Fail("gateway %d, %v after the end of another: %q, not by %q", o.Gateway, round(o.At.Sub(killed)), reported, policy)
		default:
			drafts++
		}
	}
	w.Note("%d drafts served while it was dead", drafts)
}

// booked checks, once no audit is begun any more, that each was counted once: as bad unless it was
// closed.
func (w *Testbed) booked(ctx context.Context) error {
	var b books
	var err error
	w.Until(ctx, 10*time.Second, "audits end", func() bool {
		was := b
		b, err = w.books(ctx)
		settled := err == nil && b.opened == was.opened && b.closed == was.closed && w.Targets[0].State().Running+w.Targets[1].State().Running == 0
		return w.Hold(ctx, 700*time.Millisecond) != nil || settled // longer than an audit pauses
	})
	if err != nil {
		return err
	}
	w.Note("%d audits, %d of them lost", b.opened, len(b.under))
	if len(b.under) == 0 {
		w.Fail("no audit was lost: nothing was under way")
	}
	if b.twice > 0 || b.audits != b.opened || b.bad != len(b.under) || b.opened-b.closed != len(b.under) {
		w.Fail("%d audits were opened, %d closed, %d of either twice; %d count, %d as bad, %d are left", b.opened, b.closed, b.twice, b.audits, b.bad, len(b.under))
	}
	return nil
}

// books are what Redis holds of the audits of the one kind of request that there is.
type books struct {
	opened, closed, twice int // in the log
	audits, bad           int // that count
	under                 []string
}

func (w *Testbed) books(ctx context.Context) (b books, err error) {
	c := w.Redis.Servers[0].Client
	entries, err := c.XRange(ctx, riskKeys+"log", "-", "+").Result()
	if err != nil {
		return b, err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		for what, n := range map[string]*int{"opened": &b.opened, "closed": &b.closed} {
			ticket, ok := e.Values[what].(string)
			if !ok {
				continue
			}
			if *n++; seen[what+ticket] {
				b.twice++
			}
			seen[what+ticket] = true
		}
	}
	names, err := c.ZRange(ctx, riskKeys+"index", 0, -1).Result()
	if err != nil {
		return b, err
	}
	if len(names) != 1 {
		return b, fmt.Errorf("%d kinds of request have evidence, want one: %v", len(names), names)
	}
	fields, err := c.HGetAll(ctx, riskKeys+names[0]).Result()
	if err != nil {
		return b, err
	}
	for name := range fields {
		if strings.HasPrefix(name, "t:") {
			b.under = append(b.under, name)
		}
	}
	epoch, bad := strings.Fields(fields["e1"]), strings.Fields(fields["k1"])
	if len(epoch) < 2 || len(bad) == 0 || fields["e2"] != "" {
		return b, errors.New("the evidence is not of one epoch")
	}
	b.audits, err = strconv.Atoi(epoch[1])
	if err != nil {
		return b, err
	}
	b.bad, err = strconv.Atoi(bad[0])
	return b, err
}

// riskKeys is what the names of evidence begin with.
const riskKeys = "foregate:{fg}:risk2:"
