package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/verify"
)

// checkDraft asks the target to check a draft as far as it is. An error says that the target gave no answer.
func (a *Answer) checkDraft(ctx context.Context, d *draft.Draft) (verify.Result, error) {
	began := a.World.Now()
	verdict, err := verify.NewVerifier(a.Caller).Verify(ctx, verify.NewDraft(d))
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
