package strategy

import (
	"context"
	"sort"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/transcript"
	"github.com/foregate/foregate/tiers/verify"
)

// checkDraft asks the target what it thinks of a draft as far as it is. An error is that it could not say.
func (a *Answer) checkDraft(ctx context.Context, d *draft.Draft) (verify.Result, error) {
	began := a.World.Now()
	said, err := verify.NewVerifier(a.Caller).Verify(ctx, verify.NewDraft(d))
	a.out.Scored += said.Computed
	a.recordTally()
	a.recordCheck(said.Receipt(err, a.World.Now().Sub(began)))
	return said, err
}

// recordCheck notes what the target said just now.
func (a *Answer) recordCheck(c receipt.Check) {
	a.record.RecordCheck(c)
	a.OnCheck(a.Route, c)
}

// trimStop are ids up to the one with which a stop string ended the answer: an engine would not have made the
// others. So many of them are known not to hold one.
func (a *Answer) trimStop(ctx context.Context, before int, ids []int32) []int32 {
	n := before + 1 + sort.Search(len(ids)-before-1, func(i int) bool {
		text, err := verify.Detokenize(ctx, a.Caller, a.Target, ids[:before+1+i])
		return err == nil && transcript.HasStop(text, a.Body.Stop) // where nobody can say all of them count
	})
	return ids[:n]
}
