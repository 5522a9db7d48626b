package trial

import (
	"errors"
	"net/http"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/strategy"
)

// Settle records the request and starts the background work.
func (t *Trial) Settle(d Done) {
	switch {
	case d.Left:
	case d.Err != nil:
		t.recordFailure(&d)
	case d.Outcome.Finish != "" || d.Outcome.Tier != "":
		t.record(&d)
		t.startOpinion(&d)
		t.startMirror(&d)
	}
}

// recordFailure records a request without a whole answer, unless the request or its client is at fault.
func (t *Trial) recordFailure(d *Done) {
	if !t.counts || isClientsFault(d.Err) || d.Outcome.First > 0 && !isBroken(d.Err) {
		return
	}
	for _, p := range t.setup.Pairs {
		t.trials.Recorder.AddFailure(p, t.setup.Side)
	}
}

// record records an answer for the pairs of which a client gets both sides.
func (t *Trial) record(d *Done) {
	if !t.counts {
		return
	}
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

// isClientsFault reports whether a request failed because of what it is, at every target.
func isClientsFault(err error) bool {
	if none, ok := errors.AsType[*pool.NoBackendError](err); ok && none.Total > 0 && none.Full == none.Total {
		return true // the prompt is too long
	}
	f, ok := errors.AsType[*engine.Failure](err)
	return ok && (f.Kind == engine.ClientGone || f.Kind == engine.Rejected && f.Status != http.StatusNotFound)
}
