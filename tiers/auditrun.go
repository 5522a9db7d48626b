package tiers

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/risk"
)

// auditRun is one audit from opening to closing its entries in the evidence.
type auditRun struct {
	*auditedDraft
	score   float64
	own     bool     // its outcome is evidence for the thresholds of its traffic class
	warmup  bool     // it counts for the warm-up
	tickets []string // of the entries that the evidence has opened
	why     string   // the reason if none was opened
}

// prepare finds what the draft is evidence for, and reports whether there is anything. A score that only helps to place a
// grid is stored at once: the target is not asked.
func (b *auditRun) prepare(ctx context.Context) bool {
	t := b.Decision.Audit
	b.own = t.Own.Audited && t.Own.Version != 0 && b.score >= t.Own.Floor
	b.warmup = t.Warmup && b.score >= t.Cautious
	if t.Own.Audited && t.Own.Version == 0 {
		b.open(ctx, false)
	}
	return b.own || b.warmup
}

// open opens an entry.
func (b *auditRun) open(ctx context.Context, warmup bool) {
	own, ticket := &b.Decision.Audit.Own, b.audits.NewTicket()
	var fate risk.OpenResult
	var err error
	if warmup {
		fate, err = b.audits.Evidence.OpenWarmup(ctx, own.Key, ticket)
	} else {
		f := b.Features()
		fate, err = b.audits.Evidence.Open(ctx, risk.Audit{
			Decision: *own, Ticket: ticket, Score: b.score, Features: f[:], Tokens: b.Tokens(), Request: b.ID,
		})
	}
	switch {
	case err != nil:
		b.why = "evidence_away"
	case fate == risk.Opened:
		b.tickets = append(b.tickets, ticket)
	default:
		b.why = string(fate)
	}
}

// errNotOpened says that the evidence accepted no entry, so the target need not be asked.
var errNotOpened = errors.New("the audit was not booked")

// openAll opens all entries of the draft. It is called when the target has capacity, before the question is sent; and for a
// draft that the target is not or cannot be asked about, which stays bad: without those the promise would exclude such drafts.
func (b *auditRun) openAll(ctx context.Context) error {
	if len(b.tickets) > 0 {
		return nil // a second try: all is open already
	}
	if b.own {
		b.open(ctx, false)
	}
	if b.warmup {
		b.open(ctx, true)
	}
	if len(b.tickets) == 0 {
		return errNotOpened
	}
	return nil
}

// close stores the outcome of the open entries.
func (b *auditRun) close(ctx context.Context, bad bool) {
	v, own := &b.Views.Own, &b.Decision.Audit.Own
	if best := min(own.Threshold, v.Cautious); b.score >= best {
		b.audits.Classes.Settle(own.Key, b.Caller.Tenant, bad, b.Config.Risk.Rule, b.World.Now())
	}
	for _, ticket := range b.tickets {
		for try := 1; ; try++ {
			err := b.audits.Evidence.Close(ctx, own.Key, ticket, bad)
			if err == nil || try == auditTries || b.World.Sleep(ctx, auditPause) != nil {
				break // an entry that cannot be closed stays bad
			}
		}
	}
}
