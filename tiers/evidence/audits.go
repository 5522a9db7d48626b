package evidence

import (
	"context"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/risk"
)

// Open records an audit as bad before its outcome is known. The audit must have been drawn at random. Open waits for Redis
// for at most a second, even if ctx ends. An error that is not [ErrAway] means that the audit is invalid.
func (b *Store) Open(ctx context.Context, a risk.Audit) (risk.OpenResult, error) {
	if !ticketShape.MatchString(a.Ticket) || !isRequest(a.Request) || len(a.Features) > maxFeatures || a.Tokens < 0 || a.Hi < 0 || a.Version < 0 || a.Alarm < 0 {
		return "", fmt.Errorf("evidence: ticket %.80q of request %.80q with %d features, %d tokens, index %d is no audit", a.Ticket, a.Request, len(a.Features), a.Tokens, a.Hi)
	}
	if !(a.Chance > 0 && a.Chance <= 1) {
		return "", fmt.Errorf("evidence: an audit that was drawn with chance %g is no evidence", a.Chance)
	}
	r := b.opts.Rule(a.Key.Route)
	var fate risk.OpenResult
	var err error
	if b.local != nil {
		fate, err = b.local.open(r, a)
	} else {
		var word string
		word, err = b.change(ctx, openScript, a.Key, r, a.Ticket, a.Version, a.Alarm, a.Hi, exact(a.Score), exact(a.Threshold), exact(a.Floor),
			joined(a.Features), a.Tokens, a.Request, exact(a.Chance))
		fate = risk.OpenResult(word)
	}
	switch {
	case errors.Is(err, ErrAway):
		b.metrics.count(a.Key, labelAway)
	case err == nil && fate != risk.Opened:
		b.metrics.count(a.Key, string(fate))
	}
	return fate, err
}

// Close ends a recorded audit. If the audit is not in progress any more, nothing changes; this is no error.
func (b *Store) Close(ctx context.Context, k risk.Key, ticket string, bad bool) error {
	if !ticketShape.MatchString(ticket) {
		return fmt.Errorf("evidence: %.80q is no ticket", ticket)
	}
	r := b.opts.Rule(k.Route)
	var known, warmup bool
	var err error
	if b.local != nil {
		known, warmup, err = b.local.close(r, k, ticket, bad)
	} else {
		outcome := 0
		if bad {
			outcome = 1
		}
		var word string
		word, err = b.change(ctx, closeScript, k, r, ticket, outcome)
		known, warmup = word != "0", word == "2"
	}
	switch {
	case errors.Is(err, ErrAway):
		b.metrics.count(k, labelAway)
	case err != nil, warmup: // the series of the warm-up tell of it
	case !known:
		b.metrics.count(k, Lost)
	case bad:
		b.metrics.count(k, Bad)
	default:
		b.metrics.count(k, Good)
	}
	return err
}

// Lost counts a recorded audit that will never be closed: it stays bad.
func (b *Store) Lost(k risk.Key) { b.metrics.count(k, Lost) }

// Reset deletes a key: its grid, its evidence and the audits in progress. Earlier decisions become stale.
// With a Redis, replicas that saw its warm-up end still know that it did.
func (b *Store) Reset(ctx context.Context, k risk.Key) error {
	name, err := nameOf(k)
	if err != nil {
		return err
	}
	if b.local != nil {
		b.local.reset(k)
		return nil
	}
	asked := b.now()
	if _, err := b.call(ctx, forgetScript, []string{keyIndex, keyRisk + name}, 1, maxKeys, 0, 0, name); err != nil {
		return err
	}
	b.views.learn(k, risk.State{}, asked)
	return nil
}
