package tiers

import (
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
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

// cost returns what an answer costs. A server that may have worked without telling its tokens is paid the bound.
func (fb *Fallback) cost(r *openai.Request, rc *receipt.Receipt, tries []dispatch.Try, err error) float64 {
	switch {
	case err == nil && rc.PromptTokens > 0:
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
		case engine.Refused, engine.Backpressure, engine.Rejected, engine.Unauthorized, engine.ServerError, engine.Exhausted:
		default:
			return true
		}
	}
	return false
}
