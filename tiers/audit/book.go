package audit

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/risk"
)

// booking is one audit on its way through the evidence.
type booking struct {
	*Draft
	score   float64
	entries []entry // that its outcome is evidence for
	booked  []entry // that were opened
	why     string  // nothing was
}

// prepare finds what the draft is evidence for; it reports whether there may be anything.
func (b *booking) prepare(ctx context.Context) bool {
	for _, e := range entriesOf(b.Trial, b.score) {
		b.add(ctx, e)
	}
	return len(b.entries) > 0 || b.Trial.Head.Audited
}

// add keeps what the draft is evidence for. A score that only helps to place a grid is told at once.
func (b *booking) add(ctx context.Context, e entry) {
	switch {
	case e.learns():
		b.open(ctx, e)
	case e.counts():
		b.entries = append(b.entries, e)
	}
}

// open opens the audit of one entry.
func (b *booking) open(ctx context.Context, e entry) {
	e.ticket = b.Auditor.Ticket()
	fate, err := b.opened(ctx, e)
	switch {
	case err != nil:
		b.why = "evidence_away"
	case fate == risk.Booked:
		b.booked = append(b.booked, e)
	default:
		b.why = string(fate)
	}
}

// opened tells the evidence of one audit.
func (b *booking) opened(ctx context.Context, e entry) (risk.Fate, error) {
	evidence := b.Auditor.Evidence
	if e.warmup {
		return evidence.OpenWarmup(ctx, e.Key, e.ticket)
	}
	f := b.Features()
	return evidence.Open(ctx, Booking{
		Decision: e.Decision, Ticket: e.ticket, Score: e.score, Features: f[:], Tokens: b.Tokens(), Map: b.Config.Risk.Map,
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
	for _, e := range b.entries {
		b.open(ctx, e)
	}
	if len(b.booked) == 0 {
		return errUnbooked
	}
	return nil
}

// close ends the audits that were booked.
func (b *booking) close(ctx context.Context, bad bool) {
	for _, e := range b.booked {
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
func (b *booking) leaveBad(ctx context.Context) {
	_ = b.book(ctx) // errUnbooked: nobody counts it
}
