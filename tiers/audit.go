package tiers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/scoring"
)

// audit asks the target about a draft that came to its end, and books what it says.
func (t *twin) audit(ctx context.Context) {
	v := t.verdict()
	if !v.Accept && !t.faulty(v) {
		return // nothing that would be served by any threshold in the region
	}
	j := t.job
	b := &booking{twin: t, score: float64(v.Score)}
	defer b.settleCosts()
	if !b.prepare(ctx) {
		return
	}
	if !v.Accept {
		b.leaveBad(ctx)
		return
	}
	if !j.cascade.audits.enter(ctx, j.cfg.Risk.AtOnce) {
		t.dropped("busy")
		return
	}
	defer j.cascade.audits.leave()
	if t.trial.Head.Audited {
		b.tryHead(ctx)
	}
	if len(b.stamps) == 0 {
		return
	}
	good, heard := b.ask(ctx)
	switch {
	case len(b.booked) == 0:
		t.dropped(b.why)
	case heard:
		b.close(ctx, !good)
		b.vouch(good)
	}
}

// vouch tells whoever holds back a draft of the warm-up that the target stood by it.
func (b *booking) vouch(good bool) {
	if tell := b.job.ask.Vouched; good && b.trial.Warmup && tell != nil {
		tell()
	}
}

// verdict is that on the whole draft.
func (t *twin) verdict() accept.Verdict {
	if t.whole != nil {
		return *t.whole
	}
	if t.over && t.finish == "" {
		return accept.Verdict{}
	}
	t.unlimited()
	return t.final()
}

// faulty reports whether a draft whose shape turned out to be at fault would be with the client all
// the same, because it was released as it came. Nobody needs to be asked: it is bad.
func (t *twin) faulty(v accept.Verdict) bool {
	return t.shown && t.finish != "" && v.Tokens > 0 && v.Reason != accept.ReasonScore
}

// booking is one audit on its way through the evidence.
type booking struct {
	*twin
	score  float64
	stamps []stamped // that its outcome is evidence for
	booked []stamped // that were opened
	why    string    // nothing was
}

// stamped is a stamp with the score that it is about, and the ticket of its audit.
type stamped struct {
	risk.Decision
	score  float64
	ticket string
	warmup bool // it is about what the warm-up served, and evidence for no threshold
}

// prepare finds what the draft is evidence for; it reports whether there may be anything. A score
// that only helps to place a grid is told at once: no target is asked.
func (b *booking) prepare(ctx context.Context) bool {
	for _, d := range b.trial.Stamps() {
		if d.Key.Lot != plan.LotHead {
			b.stamp(ctx, stamped{Decision: d, score: b.score})
		}
	}
	if b.trial.Warmup && b.score >= b.trial.Cautious {
		b.stamps = append(b.stamps, stamped{Decision: b.trial.Own, score: b.score, warmup: true})
	}
	return len(b.stamps) > 0 || b.trial.Head.Audited
}

// stamp keeps what the draft is evidence for.
func (b *booking) stamp(ctx context.Context, s stamped) {
	switch {
	case s.Version == 0:
		b.open(ctx, s)
	case s.score >= s.Floor:
		b.stamps = append(b.stamps, s)
	}
}

// tryHead asks the target about the first tokens of a draft that would have been doubtful: what it
// stands by is evidence for the lot of such.
func (b *booking) tryHead(ctx context.Context) {
	if b.head.ids == 0 || b.head.ids > len(b.ids) || b.score < b.band || b.head.score >= b.trial.Own.Threshold {
		return
	}
	head := *b.draft
	head.ids, head.finish = b.ids[:b.head.ids], ""
	said := receipt.Checked{Scorer: plan.ScorerIDs}
	c, err := head.scoredIDs(ctx, &said)
	if err != nil || !c.Pass {
		return
	}
	b.stamp(ctx, stamped{Decision: b.trial.Head, score: float64(c.Score)})
}

// open books one audit.
func (b *booking) open(ctx context.Context, s stamped) {
	s.ticket = rand.Text()
	fate, err := b.opened(ctx, s)
	switch {
	case err != nil:
		b.why = "evidence_away"
	case fate == risk.Booked:
		b.booked = append(b.booked, s)
	default:
		b.why = string(fate)
	}
}

// opened tells the evidence of one audit.
func (b *booking) opened(ctx context.Context, s stamped) (risk.Fate, error) {
	e := b.job.cascade.evidence
	if s.warmup {
		return e.OpenWarmup(ctx, s.Key, s.ticket)
	}
	f := b.course.Features()
	return e.Open(ctx, Audit{
		Decision: s.Decision, Ticket: s.ticket, Score: s.score, Features: f[:], Tokens: b.course.Tokens(), Map: b.job.cfg.Risk.Map,
	})
}

// errUnbooked says that nobody counts an audit, so that the target need not be asked.
var errUnbooked = errors.New("the audit was not booked")

// book opens all audits of the draft. It is called when there is a place for the question and
// before that is sent.
func (b *booking) book(ctx context.Context) error {
	if len(b.booked) > 0 {
		return nil // it is asked again
	}
	for _, s := range b.stamps {
		b.open(ctx, s)
	}
	if len(b.booked) == 0 {
		return errUnbooked
	}
	return nil
}

// close ends the audits that were booked.
func (b *booking) close(ctx context.Context, bad bool) {
	for _, s := range b.booked {
		for try := 1; ; try++ {
			err := b.job.cascade.evidence.Close(ctx, s.Key, s.ticket, bad)
			if err == nil || try == auditTries || !pause(ctx, auditPause) {
				break // what cannot be closed stays bad
			}
		}
	}
}

// ask has the target label the draft. Where there is no room it waits, and nothing is booked;
// what was booked and comes to nothing three times is lost.
func (b *booking) ask(ctx context.Context) (good, heard bool) {
	waited, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	for tries := 0; tries < auditTries; {
		good, err := b.label(ctx)
		switch {
		case err == nil:
			return good, true
		case errors.Is(err, errUnbooked), ctx.Err() != nil:
			return false, false
		case len(b.booked) > 0:
			tries++
		case !noRoom(err):
			b.why = whyUnheard(err) // what cannot be asked about at all, such as a text that is too long
			b.leaveBad(ctx)
			return false, false
		}
		if b.why = "target_full"; len(b.booked) == 0 && waited.Err() != nil || !pause(ctx, auditPause) {
			return false, false
		}
	}
	return false, false
}

// leaveBad books a draft that the target is not or cannot be asked about as bad for good: were it
// left out, the promise would not be for such drafts.
func (b *booking) leaveBad(ctx context.Context) {
	_ = b.book(ctx) // errUnbooked: nobody counts it
}

// noRoom reports whether an audit failed because the target has no place for it now.
func noRoom(err error) bool {
	if refused, ok := errors.AsType[*scoring.RefusedError](err); ok {
		return refused.Reason != scoring.ReasonTooLong
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok { // of a question before, which may be asked elsewhere,
		return f.Status < 400 || f.Status >= 500 || f.Status == http.StatusTooManyRequests // but for one that nobody answers
	}
	return errors.Is(err, pool.ErrFull) || errors.Is(err, pool.ErrNoBackend)
}

// promised holds what the target said of a doubtful head against the threshold of such.
func (d *draft) promised(c *accept.Check) *accept.Check {
	t := d.job.trial
	if c == nil || t == nil || !c.Pass || float64(c.Score) >= t.Head.Threshold {
		return c
	}
	refused := *c
	refused.Pass, refused.Reason = false, accept.ReasonDisagrees
	return &refused
}

// label asks the target in the way that the setting says.
func (b *booking) label(ctx context.Context) (good bool, err error) {
	d := b.draft
	d.job.before = b.book
	said := receipt.Checked{Scorer: d.job.receipt.Plan.Scorer}
	switch d.job.cfg.Risk.Label {
	case plan.LabelRegenerate:
		return b.regenerated(ctx, &said)
	case plan.LabelPrefix:
		c, err := d.heard(ctx, &said)
		return err == nil && (c.Pass || float64(c.Kept) >= d.job.cfg.Risk.Prefix*float64(max(len(d.ids), 1))), err
	}
	c, err := d.heard(ctx, &said)
	return err == nil && c.Pass, err
}

// regenerated has the target write an answer of its own. A draft that says the same is good; of
// another one the target is asked whether it is right.
func (b *booking) regenerated(ctx context.Context, said *receipt.Checked) (good bool, err error) {
	j := b.job
	k, a := j.wholeCall(j.route.Target, j.cfg.Timeouts.TargetFirstByte)
	k.turn.Class, k.before = 0, j.before
	if _, err := j.cascade.question(ctx, k, j.receipt); err != nil {
		return false, err
	}
	j.receipt.TargetTokens += a.Usage.Completion
	if accept.SaysTheSame(b.reply.text, a.Text) {
		return true, nil
	}
	if j.receipt.Plan.Scorer != plan.ScorerJudge {
		return false, nil
	}
	c, err := b.judged(ctx, said)
	return err == nil && c.Pass, err
}

// settleCosts books what the audit cost.
func (b *booking) settleCosts() {
	j := b.job
	cost, priced := j.targetCost()
	if !j.views.Spare {
		j.cascade.audits.spent(j.route.Model, cost)
	}
	if !priced {
		cost = 0 // it is in tokens
	}
	j.cascade.metrics.audited(j.route.Model, j.receipt.ScoredTokens, cost)
}
