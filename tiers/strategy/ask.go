package strategy

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/verify"
)

// askAbout asks the target what it thinks of a draft as far as it is. An error is that it could not say.
func (a *Answer) askAbout(ctx context.Context, d *draft.Draft) (verify.Result, error) {
	began := a.World.Now()
	said, err := verify.Of(a.Caller).Ask(ctx, verify.About(d))
	a.out.Scored += said.Computed
	a.noteTally()
	a.checked(said.Checked(err, a.World.Now().Sub(began)), began)
	return said, err
}

// checked notes what the target said, when it was asked at some time.
func (a *Answer) checked(c receipt.Checked, asked time.Time) {
	a.record.Checked(c, asked)
	a.Checked(a.Route, c)
}
