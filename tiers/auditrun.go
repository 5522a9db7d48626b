package tiers

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/risk"
)

// prepare finds what the draft is evidence for, and reports whether there is anything. A score that only helps to place a
// grid is stored at once: the target is not asked.
func (d *auditedDraft) prepare(ctx context.Context) bool {
	t := d.Decision.Audit
	d.own = t.Own.Audited && t.Own.Version != 0 && d.score >= t.Own.Floor
	d.warmup = t.Warmup && d.score >= t.Cautious
	if t.Own.Audited && t.Own.Version == 0 {
		d.open(ctx, false)
	}
	return d.own || d.warmup
}

// open opens an entry.
func (d *auditedDraft) open(ctx context.Context, warmup bool) {
	own, ticket := d.Decision.Audit.Own.Of(d.score), d.audits.NewTicket()
	var fate risk.OpenResult
	var err error
	if warmup {
		fate, err = d.audits.Evidence.OpenWarmup(ctx, own.Key, ticket)
	} else {
		f := d.Features()
		fate, err = d.audits.Evidence.Open(ctx, risk.Audit{
			Decision: own, Ticket: ticket, Score: d.score, Features: f[:], Tokens: d.Tokens(), Request: d.ID,
			Application: d.Application,
		})
	}
	switch {
	case err != nil:
		d.why = "evidence_away"
	case fate == risk.Opened:
		d.tickets = append(d.tickets, ticket)
	default:
		d.why = string(fate)
	}
}

// errNotOpened says that the evidence accepted no entry, so the target need not be asked.
var errNotOpened = errors.New("the audit was not booked")

// openAll opens all entries of the draft. It is called when the target has capacity, before the question is sent; and for a
// draft that the target is not or cannot be asked about, which stays bad: without those the promise would exclude such drafts.
func (d *auditedDraft) openAll(ctx context.Context) error {
	if len(d.tickets) > 0 {
		return nil // a second try: all is open already
	}
	if d.own {
		d.open(ctx, false)
	}
	if d.warmup {
		d.open(ctx, true)
	}
	if len(d.tickets) == 0 {
		return errNotOpened
	}
	return nil
}

// close stores the outcome of the open entries.
func (d *auditedDraft) close(ctx context.Context, bad bool) {
	v, own := &d.Views.Own, &d.Decision.Audit.Own
	d.metrics.applications.countAudit(d.Request, own.Of(d.score).Chance, !bad)
	if best := min(own.Threshold, v.Cautious); d.score >= best {
		d.audits.Classes.Settle(own.Key, d.Caller.Tenant, bad, d.Config.Risk.Rule, d.World.Now())
	}
	for _, ticket := range d.tickets {
		for try := 1; ; try++ {
			err := d.audits.Evidence.Close(ctx, own.Key, ticket, bad)
			if err == nil || try == auditTries || d.World.Sleep(ctx, auditPause) != nil {
				break // an entry that cannot be closed stays bad
			}
		}
	}
}
