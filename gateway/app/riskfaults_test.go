package app_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/risk"
)

// TestWhileRedisIsSilentCertificatesHoldForAsLongAsTheSettingSays freezes Redis, thaws it, and
// kills it once the last certificate may hold for good.
func TestWhileRedisIsSilentCertificatesHoldForAsLongAsTheSettingSays(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "", "risk.max_staleness", "1s")
	k := w.certified(t)
	grant := fmt.Sprintf("g%d.a0.op1", w.state(t, k).Version)
	l := w.load(t, 1, 1, w.replicas...).during(t, 10)
	dropped := func() int {
		return summed(t, w.replicas, "foregate_audits_dropped_total", `reason="evidence_away"`)
	}
	w.redis.Freeze()
	took, slowest := w.until(t, "nobody serves drafts", riskReply.bypassed)
	promised(t, "drafts are served for a second at most", took, time.Second, slowest)
	apptest.Eventually(t, "audits are dropped", func() bool { return dropped() > 0 })
	w.redis.Thaw()
	took, slowest = w.until(t, "drafts are served again", func(r riskReply) bool { return r.accepted() && r.grant == grant })
	promised(t, "drafts are served again", took, 3*time.Second, slowest)
	l.unharmed(t)
	// A script that Redis had been sent before it froze is run when it thaws, and nobody waits
	// for its answer: that audit is lost, and bad.
	var lost []string
	apptest.Eventually(t, "audits end", func() bool {
		lost = w.tickets(t, k)
		good := summed(t, w.replicas, "foregate_audits_total", `label="good"`) + madeUp
		opened, closed := w.booked(t, k)
		return opened-closed == len(lost) && good <= closed
	})
	e := w.sound(t, k)
	t.Logf("%d audits were dropped; of %d booked %d were lost", dropped(), e.Audits, len(lost))
	if maximum := 16 * len(w.replicas); len(lost) > maximum {
		t.Errorf("%d audits were lost, at most %d were under way", len(lost), maximum)
	}
}

// TestARedisThatForgetsAllIsAColdStart empties Redis while drafts are being made by what it knew.
func TestARedisThatForgetsAllIsAColdStart(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "")
	k := w.certified(t)
	if err := w.draft.SetFault(vllmsim.Fault{Slow: 100}); err != nil {
		t.Fatal(err)
	}
	var before []*riskLoad
	for range 4 {
		before = append(before, w.once(t))
	}
	apptest.Within(t, riskSlow, "drafts are under way", func() bool { return w.draft.State().Running >= 4 })
	pipe := w.redis.Client.TxPipeline() // not for a moment without settings
	pipe.FlushAll(t.Context())
	pipe.HSet(t.Context(), settings.Key, riskQuick)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.draft.SetFault(vllmsim.Fault{}); err != nil {
		t.Fatal(err)
	}
	took, slowest := w.until(t, "nobody serves drafts", func(r riskReply) bool { return r.bypassed() && r.grant == "g0.a0.op0" })
	promised(t, "nobody serves drafts", took, 2*time.Second, slowest)
	for _, l := range before {
		l.unharmed(t)
	}
	apptest.Eventually(t, "what was decided before is stale", func() bool {
		return summed(t, w.replicas, "foregate_audits_total", `label="stale"`) > 0
	})
	if s := w.state(t, k); s.Version != 0 || len(s.Epochs) > 0 || len(s.Scores) >= risk.GridScores {
		t.Errorf("after it was emptied Redis holds version %d, %d epochs, %d scores", s.Version, len(s.Epochs), len(s.Scores))
	}
	l := w.load(t, 2, 1, w.replicas...)
	w.until(t, "all serve drafts again", riskReply.accepted)
	l.unharmed(t)
	w.quiet(t, k)
	w.sound(t, k)
}

// once sends one request to each replica in the background.
func (w *riskFleet) once(t *testing.T) *riskLoad {
	t.Helper()
	l := &riskLoad{}
	for _, p := range w.replicas {
		l.clients.Go(func() { l.note(riskAsk(t.Context(), p, riskPrompt)) })
	}
	return l
}

// TestADraftThatTurnsBadIsServedNoLonger has a worse engine take the draft's place: one that is
// as sure of itself, under the same model card.
func TestADraftThatTurnsBadIsServedNoLonger(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "", "risk.lease_audits", "200")
	k := w.certified(t)
	w.replaced(t, vllmsim.Options{Seed: simSeed + 1})
	l := w.load(t, 2, 1, w.replicas...)
	w.until(t, "nobody serves its drafts", func(r riskReply) bool { return r.bypassed() || r.reason == "infeasible" })
	l.unharmed(t)
	s := w.state(t, k)
	t.Logf("%d of its drafts served; alarm %d, nothing can be certified: %v", l.drafts, s.Alarm, s.Infeasible)
	if s.Op != 0 || s.Alarm == 0 && !s.Infeasible {
		t.Errorf("operating index %d, alarm %d", s.Op, s.Alarm)
	}
	if l.drafts > 200 {
		t.Errorf("%d bad drafts were served in a lease of 200 audits", l.drafts)
	}
}

// TestEvidenceOfOneModelIsNoneOfAnother has an engine with other tokens take the draft's place.
func TestEvidenceOfOneModelIsNoneOfAnother(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "")
	k := w.certified(t)
	w.replaced(t, vllmsim.Options{Tokenizer: "other"})
	apptest.Within(t, riskSlow, "all know that it is another", func() bool {
		return w.all(func(p *apptest.Replica) bool { return strings.Count(p.Log.String(), "its engine was restarted") == 1 })
	})
	opened, _ := w.booked(t, k)
	l := w.load(t, 1, 1, w.replicas...)
	w.until(t, "nobody serves drafts", func(r riskReply) bool { return r.bypassed() && r.grant == "g0.a0.op0" })
	apptest.Within(t, riskSlow, "its drafts are scored", func() bool { return len(w.known(t)) == 2 })
	l.during(t, 12).unharmed(t)
	for _, other := range w.known(t) {
		if s := other.State; other.Key != k && (len(s.Scores) == 0 || s.Version != 0) {
			t.Errorf("of %v there are %d scores, and thresholds of version %d", other.Key, len(s.Scores), s.Version)
		}
	}
	if again, _ := w.booked(t, k); again != opened || l.drafts > 0 {
		t.Errorf("%d audits of another model's drafts are evidence, %d drafts were served by it", again-opened, l.drafts)
	}
}

// TestAStricterPromiseIsKeptAtOnceAndALaxerOneNeedsNoNewAudits changes ε under traffic.
func TestAStricterPromiseIsKeptAtOnceAndALaxerOneNeedsNoNewAudits(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "")
	k := w.certified(t)
	before := w.sound(t, k)
	w.set(t, "risk.max_wrong_rate", "0.001")
	took, slowest := w.until(t, "nobody serves drafts", riskReply.bypassed)
	promised(t, "nobody serves drafts", took, 2*time.Second, slowest)
	w.load(t, 1, 1, w.replicas...).during(t, 12).unharmed(t)
	w.quiet(t, k)
	strict := w.sound(t, k)
	if strict.ID != before.ID || strict.Audits < before.Audits || w.state(t, k).MaxWrongRate != .001 {
		t.Errorf("under another promise %d audits of epoch %d are %d of epoch %d", before.Audits, before.ID, strict.Audits, strict.ID)
	}
	w.quiet(t, k)
	w.set(t, "risk.max_wrong_rate", "0.3")
	apptest.Eventually(t, "the first promise is in force", func() bool {
		return w.all(func(p *apptest.Replica) bool { return p.Setting(t, "risk.max_wrong_rate") == "0.3" })
	})
	tries := 0
	for opened, _ := w.booked(t, k); !riskAsk(t.Context(), w.replicas[0], riskPrompt).accepted(); tries++ {
		was := opened
		apptest.Eventually(t, "its draft is audited", func() bool { opened, _ = w.booked(t, k); return opened > was })
	}
	took, slowest = w.until(t, "all serve drafts again", riskReply.accepted)
	promised(t, "all serve drafts again", took, 2*time.Second, slowest)
	lax := w.sound(t, k)
	t.Logf("%d audits under the first promise, %d under the stricter one; %d more and drafts are served", before.Audits, strict.Audits, tries)
	if lax.ID != before.ID || tries > 4 {
		t.Errorf("epoch %d is epoch %d, after %d audits", before.ID, lax.ID, tries)
	}

	bad := map[string]string{"risk.max_wrong_rate": "7", "risk.error_probability": "0", "risk.lease_audits": "10", "risk.max_staleness": "10ms"}
	for name, value := range bad {
		w.set(t, name, value)
	}
	apptest.Eventually(t, "all refuse what no setting may be", func() bool {
		return w.all(func(p *apptest.Replica) bool {
			refused := p.Status(t).Settings.Rejected
			return len(refused) == len(bad) && !slices.ContainsFunc(refused, func(r gateway.RejectedSettingView) bool { return bad[r.Name] != r.Value })
		})
	})
	if !w.each(t, riskReply.accepted) {
		t.Error("a value that was refused has stopped drafts")
	}
	for _, p := range w.replicas {
		if got := p.Setting(t, "risk.max_wrong_rate"); got != "0.3" {
			t.Errorf("in force is %q", got)
		}
	}
}

// TestAReplicaThatIsToldToStopWithAuditsUnderWayEndsInTime sends SIGTERM while clients wait for
// answers and the target for time to score.
func TestAReplicaThatIsToldToStopWithAuditsUnderWayEndsInTime(t *testing.T) {
	longForm(t)
	w := newRiskFleet(t, 3, "")
	k := w.certified(t)
	w.slow(t, 400)
	leaving := w.replicas[0]
	w.load(t, 4, 1, leaving).during(t, 8).unharmed(t)
	apptest.Within(t, riskSlow, "audits are under way", func() bool { return len(w.tickets(t, k)) >= 4 })
	if err := w.draft.SetFault(vllmsim.Fault{Slow: 100}); err != nil {
		t.Fatal(err)
	}
	l := &riskLoad{}
	for range 4 {
		l.clients.Go(func() { l.note(riskAsk(t.Context(), leaving, riskPrompt)) })
	}
	apptest.Within(t, riskSlow, "drafts are under way", func() bool { return w.draft.State().Running >= 4 })
	began := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		leaving.Stop(t)
	}()
	l.unharmed(t)
	<-stopped
	promised(t, "it has ended", time.Since(began), 10*time.Second, 0)
	if l.replies != 4 || l.drafts != 4 {
		t.Errorf("of 4 clients %d got answers, %d of them drafts", l.replies, l.drafts)
	}
	w.replicas = w.replicas[1:]
	w.slow(t, 0)
	left := w.tickets(t, k)
	t.Logf("ended after %v, %d audits were lost", time.Since(began).Round(time.Millisecond), len(left))
	if e := w.sound(t, k); e.K[0] != len(left) {
		t.Errorf("%d audits were lost, %d count as bad", len(left), e.K[0])
	}
	if strings.Contains(leaving.Log.String(), `"level":"error"`) {
		t.Errorf("the end was an error:\n%s", leaving.Log.String())
	}
}

// longForm leaves a test to the long forms (make proofs): what it shows is shown piece by piece elsewhere.
func longForm(t *testing.T) {
	t.Helper()
	if os.Getenv("FOREGATE_PROOFS") != "long" {
		t.Skip("a long form: FOREGATE_PROOFS=long")
	}
}
