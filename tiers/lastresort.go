package tiers

import (
	"errors"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// Fallback is a hosted last resort of a route.
type Fallback struct {
	Pool           *pool.Pool
	When           []plan.FailureCause
	NanoUSDPerHour int64 // 1e-9 USD that all replicas together may spend on it per hour
	Price          plan.TokenPrice
	// Names are the routes that offer the same servers with the same model as their own. A tenant needs the right to one
	// of them; none: to the route of the fallback only.
	Names []string
}

// FailureCauseOf returns why the route's own pools gave no answer, by the error of [Cascade.Answer]. shed: it is
// the error of a queue that refuses admission.
func FailureCauseOf(err error, shed bool) plan.FailureCause {
	if _, broken := errors.AsType[*strategy.BrokenError](err); broken || err == nil {
		return plan.CauseNone
	}
	if shed {
		return plan.CauseShed
	}
	if e, ok := errors.AsType[*dispatch.ExhaustedError](err); ok {
		switch {
		case e.AllBusy:
			return plan.CauseShed // they refused admission themselves
		case e.Last.Kind == engine.Exhausted:
			return plan.CauseNone // this replica has no connections left
		}
		return plan.CauseUnavailable
	}
	if e, ok := errors.AsType[*pool.NoBackendError](err); ok {
		if e.TooLong {
			return plan.CauseNone
		}
		return plan.CauseUnavailable
	}
	return plan.CauseNone
}

// cost returns what an answer costs. A server that may have worked without telling its tokens is paid the bound. Nobody
// has worked behind a connection that had been closed while it was idle.
func (fb *Fallback) cost(r *openai.Request, rc *receipt.Receipt, tries []dispatch.Try, err error) float64 {
	f, failed := errors.AsType[*engine.Failure](err)
	switch {
	case failed && f.StaleConnection:
		return 0
	case err == nil && rc.PromptTokens > 0 && !rc.Estimated:
		return fb.Price.Of(rc.PromptTokens, rc.TargetTokens)
	case err != nil && !mayHaveWorked(tries):
		return 0
	}
	return fb.Price.Bound(r)
}

// mayHaveWorked reports whether a server may have begun to answer.
func mayHaveWorked(tries []dispatch.Try) bool {
	for _, t := range tries {
		switch t.Failed {
		case engine.Refused, engine.Backpressure, engine.Rejected, engine.WrongModel, engine.Unauthorized, engine.ServerError, engine.Exhausted:
		default:
			return true
		}
	}
	return false
}
