package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/receipt"
)

// checkDraft asks the target to check a draft as far as it is. An error says that the target gave no answer.
func (a *Answer) checkDraft(ctx context.Context, d *draft.Draft) (inflight.Result, error) {
	began := a.World.Now()
	verdict, err := inflight.NewVerifier(a.Caller).Verify(ctx, inflight.NewDraft(d))
	a.out.Scored += verdict.Computed
	a.recordTally()
	a.recordCheck(verdict.Receipt(err, a.World.Now().Sub(began)))
	return verdict, err
}

// recordCheck records one check.
func (a *Answer) recordCheck(c receipt.Check) {
	a.record.RecordCheck(c)
	a.OnCheck(a.Route, c)
}
