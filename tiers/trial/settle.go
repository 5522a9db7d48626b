package trial

import (
	"errors"
	"net/http"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/strategy"
)

// Settle records the request and starts the background work.
func (t *Trial) Settle(d Done) {
	why, unanswered := t.unanswered(&d)
	switch {
	case t.counts && unanswered:
		for _, p := range t.setup.Pairs {
			t.trials.Recorder.AddUnanswered(p, t.setup.Side, why)
		}
	case t.counts && d.isWhole():
		t.record(&d)
	}
	if d.Err == nil && !d.Left && d.isWhole() {
		t.startOpinion(&d)
		t.startMirror(&d)
	}
}

// unanswered reports whether the request's side gave no whole answer, and why. Clients are assigned at random, so what is
// their fault is as frequent on both sides unless the targets differ.
func (t *Trial) unanswered(d *Done) (why compare.Unanswered, yes bool) {
	switch {
	case t.setup.Diverted:
		return compare.Diverted, true
	case d.Left:
		return compare.Left, true
	case d.Err == nil:
		return 0, false
	case isRejected(d.Err):
		return compare.Rejected, true
	case isClientGone(d.Err), d.Outcome.First > 0 && !isBroken(d.Err): // else, after the first byte, writing to the client failed
		return compare.Left, true
	}
	return compare.Failed, true
}

// record records an answer for the pairs of which a client gets both sides.
func (t *Trial) record(d *Done) {
	a := answerOf(d, d.USD, t.request.Body.Stream)
	a.Side = t.setup.Side
	for _, p := range t.setup.Pairs {
		t.trials.Recorder.AddAnswer(p, a)
		if d.Outcome.IsJudged() {
			t.trials.Recorder.AddDraft(p, t.setup.Side, writerOf(d.Outcome) == plan.Draft)
		}
	}
}

// isBroken reports whether an answer broke off by a fault of the engines. Another error after the first byte is the client's.
func isBroken(err error) bool {
	_, ok := errors.AsType[*strategy.BrokenError](err)
	return ok
}

// isClientGone reports whether a call ended because the client left.
func isClientGone(err error) bool {
	f, ok := errors.AsType[*engine.Failure](err)
	return ok && f.Kind == engine.ClientGone
}

// isRejected reports whether the target refused the request for what it is: its engines do not support a field, or its
// prompt is too long for each. Another target may serve it.
func isRejected(err error) bool {
	if none, ok := errors.AsType[*pool.NoBackendError](err); ok && none.Total > 0 && none.Full == none.Total {
		return true
	}
	f, ok := errors.AsType[*engine.Failure](err)
	return ok && f.Kind == engine.Rejected && f.Status != http.StatusNotFound
}
