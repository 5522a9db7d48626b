package strategy

import "context"

// verifyWhole judges the whole draft, by its own score or by the target, before the client gets any of it.
type verifyWhole struct {
	draftRun
}

func (s *verifyWhole) run(ctx context.Context) error { return s.draftRun.run(ctx, nil) }
