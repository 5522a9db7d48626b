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
	said, err := verify.Of(a.Caller).Ask(ctx, about(d))
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

// about is what the target is told of a draft.
func about(d *draft.Draft) verify.Draft {
	t := d.Transcript()
	v := verify.Draft{
		PromptIDs: t.PromptIDs(), IDs: t.IDs(), Tokens: d.Tokens(), Text: t.Text(),
		Ended: d.EndsItself(), AtLimit: d.Finish() == "length", Resumes: d.Resumes(),
	}
	if withStop := t.TextWithStop(); len(withStop) > len(v.Text) {
		v.StopWord = withStop[len(v.Text):]
	}
	return v
}
