package audit

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/risk"
)

// auditRun is one audit on its way through the evidence.
type auditRun struct {
	*Draft
	score   float64
	entries []entry // that its outcome is evidence for
	opened  []entry // that were opened
	why     string  // nothing was
}

// prepare finds what the draft is evidence for; it reports whether there may be anything.
func (b *auditRun) prepare(ctx context.Context) bool {
	for _, e := range entriesOf(b.AuditDecision, b.score) {
		b.add(ctx, e)
	}
	return len(b.entries) > 0 || b.AuditDecision.Head.Audited
}

// add keeps what the draft is evidence for. A score that only helps to place a grid is told at once.
func (b *auditRun) add(ctx context.Context, e entry) {
	switch {
	case e.needsScoreOnly():
		b.open(ctx, e)
	case e.counts():
		b.entries = append(b.entries, e)
	}
}

// open opens the audit of one entry.
func (b *auditRun) open(ctx context.Context, e entry) {
	e.ticket = b.Auditor.NewTicket()
	fate, err := b.addOpened(ctx, e)
	switch {
	case err != nil:
		b.why = "evidence_away"
	case fate == risk.Opened:
		b.opened = append(b.opened, e)
	default:
		b.why = string(fate)
	}
}

// addOpened tells the evidence of one audit.
func (b *auditRun) addOpened(ctx context.Context, e entry) (risk.OpenResult, error) {
	evidence := b.Auditor.Evidence
	if e.warmup {
		return evidence.OpenWarmup(ctx, e.Key, e.ticket)
	}
	f := b.Features()
	return evidence.Open(ctx, PendingAudit{
		Decision: e.Decision, Ticket: e.ticket, Score: e.score, Features: f[:], Tokens: b.Tokens(), Map: b.Config.Risk.ScoreVersion,
	})
}

// errNotOpened says that nobody counts an audit, so that the target need not be asked.
var errNotOpened = errors.New("the audit was not booked")

// openAll opens all audits of the draft. It is called when there is a place for the question and
// before that is sent.
func (b *auditRun) openAll(ctx context.Context) error {
	if len(b.opened) > 0 {
		return nil // it is asked again
	}
	for _, e := range b.entries {
		b.open(ctx, e)
	}
	if len(b.opened) == 0 {
		return errNotOpened
	}
	return nil
}

// close ends the audits that were booked.
func (b *auditRun) close(ctx context.Context, bad bool) {
	for _, e := range b.opened {
		for try := 1; ; try++ {
			err := b.Auditor.Evidence.Close(ctx, e.Key, e.ticket, bad)
			if err == nil || try == auditTries || b.World.Sleep(ctx, auditPause) != nil {
				break // what cannot be closed stays bad
			}
		}
	}
}

// leaveBad books a draft that the target is not or cannot be asked about as bad for good: were it
// left out, the promise would not be for such drafts.
func (b *auditRun) leaveBad(ctx context.Context) {
	_ = b.openAll(ctx) // errNotOpened: nobody counts it
}
