package audit

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/risk"
)

// auditRun is one audit from opening to closing its entries in the evidence.
type auditRun struct {
	*Draft
	score   float64
	entries []entry // the keys for which its outcome is evidence
	opened  []entry // those that the evidence has accepted
	why     string  // the reason if none was accepted
}

// prepare finds what the draft is evidence for, and reports whether there is anything. A score that only helps to place a
// grid is stored at once.
func (b *auditRun) prepare(ctx context.Context) bool {
	for _, e := range entriesOf(b.Decision.Audit, b.score) {
		switch {
		case e.needsScoreOnly():
			b.open(ctx, e)
		case e.counts():
			b.entries = append(b.entries, e)
		}
	}
	return len(b.entries) > 0
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

// addOpened stores one audit in the evidence.
func (b *auditRun) addOpened(ctx context.Context, e entry) (risk.OpenResult, error) {
	evidence := b.Auditor.Evidence
	if e.warmup {
		return evidence.OpenWarmup(ctx, e.Key, e.ticket)
	}
	f := b.Features()
	return evidence.Open(ctx, risk.Audit{
		Decision: e.Decision, Ticket: e.ticket, Score: e.score, Features: f[:], Tokens: b.Tokens(), Request: b.ID,
	})
}

// errNotOpened says that the evidence accepted no entry, so the target need not be asked.
var errNotOpened = errors.New("the audit was not booked")

// openAll opens all entries of the draft. It is called when the target has capacity, before the question is sent.
func (b *auditRun) openAll(ctx context.Context) error {
	if len(b.opened) > 0 {
		return nil // a second try: all is open already
	}
	for _, e := range b.entries {
		b.open(ctx, e)
	}
	if len(b.opened) == 0 {
		return errNotOpened
	}
	return nil
}

// close stores the outcome of the open entries.
func (b *auditRun) close(ctx context.Context, bad bool) {
	v, own := &b.Views.Own, &b.Decision.Audit.Own
	if best := min(own.Threshold, v.Cautious); b.score >= best {
		b.Auditor.Tenants.settle(Tenant{own.Key, b.Tenant}, bad, b.Config.Risk.Rule, b.World.Now())
	}
	for _, e := range b.opened {
		for try := 1; ; try++ {
			err := b.Auditor.Evidence.Close(ctx, e.Key, e.ticket, bad)
			if err == nil || try == auditTries || b.World.Sleep(ctx, auditPause) != nil {
				break // an entry that cannot be closed stays bad
			}
		}
	}
}

// leaveBad opens the entries of a draft that the target is not or cannot be asked about, and leaves them bad. Without
// them the promise would exclude such drafts.
func (b *auditRun) leaveBad(ctx context.Context) {
	_ = b.openAll(ctx) // errNotOpened: nothing to leave
}
