package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// role is what a call asks for.
func (k *call) role() dispatch.Role {
	switch {
	case k.scoring != nil:
		return dispatch.RoleScore
	case k.path == openai.TokenizePath, k.path == openai.DetokenizePath:
		return dispatch.RoleTokenize
	case k.tier == plan.Draft:
		return dispatch.RoleDraft
	}
	return dispatch.RoleTarget
}

// try enters a call that is begun now into the receipt.
func (x *exchange) try(waited time.Duration) {
	rc := x.receipt
	x.begun = x.cascade.now()
	if len(rc.Tries) == receipt.MostTries {
		return
	}
	rc.Tries = append(rc.Tries, dispatch.Try{
		Pool: x.pool.Name(), Backend: x.lease.Backend(), URL: x.lease.URL(), Role: x.role(), Score: x.scoring != nil,
		Waited: waited, At: x.begun.Sub(rc.Began),
	})
	x.entry = len(rc.Tries)
}

// tried is the call's entry; nil where the receipt was full, or belongs to a request that has
// done with it.
func (x *exchange) tried() *dispatch.Try {
	if x.entry == 0 {
		return nil
	}
	return &x.receipt.Tries[x.entry-1]
}

// settleTry completes the entry of a call that is over for the request: f is why it failed, nil
// when it did not, and tokens have come.
func (x *exchange) settleTry(f *engine.Failure, tokens int) {
	t := x.tried()
	if t == nil {
		return
	}
	x.entry = 0
	if x.resp != nil {
		t.Status = x.resp.StatusCode
	}
	if !x.first.IsZero() {
		t.First = max(x.first.Sub(x.begun), 1)
	}
	t.Took, t.Tokens = max(x.cascade.now().Sub(x.begun), 1), tokens
	switch {
	case f == nil:
	case x.first.IsZero():
		t.Failed = f.Kind
	default:
		t.Broke = f.Kind
	}
}

// ruled enters the verdict on the draft.
func (j *job) ruled(v accept.Verdict) {
	j.receipt.Verdict, j.receipt.Judged = v, j.cascade.now().Sub(j.receipt.Began)
}

// over enters a takeover.
func (j *job) over(t receipt.Takeover) {
	rc := j.receipt
	if len(rc.Over) < receipt.MostChecks {
		t.At = j.cascade.now().Sub(rc.Began)
		rc.Over = append(rc.Over, t)
	}
}
