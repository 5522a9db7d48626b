package strategy

import "context"

// verifyWhole gives nothing of a draft to the client before all of it was judged: by its own score, or by
// the target.
type verifyWhole struct {
	draftRun
}

func (s *verifyWhole) run(ctx context.Context) error { return s.draftRun.run(ctx, nil) }
