package strategy

import (
	"context"
	"sort"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/transcript"
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

// trimStop returns ids up to and including the one that completes a stop string, because an engine would not have
// generated the rest. The first before ids are known to contain no stop string.
func (a *Answer) trimStop(ctx context.Context, before int, ids []int32) []int32 {
	n := before + 1 + sort.Search(len(ids)-before-1, func(i int) bool {
		text, err := verify.Detokenize(ctx, a.Caller, a.Target, ids[:before+1+i])
		return err == nil && transcript.HasStop(text, a.Body.Stop) // without a text all ids count
	})
	return ids[:n]
}
