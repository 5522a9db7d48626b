package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
)

// speculate releases a draft as it comes, once its first tokens were accepted, and goes on guarding it.
type speculate struct {
	drafted
}

func (s *speculate) run(ctx context.Context) error { return s.drafted.run(ctx, s.step) }

// step judges what came so far, and releases what may be.
func (s *speculate) step(ctx context.Context) error {
	before := s.d.Committed()
	if s.decide(ctx); s.d.Rejected() {
		return nil
	}
	if !before && s.d.Committed() && !s.Config.Takeover {
		s.x.Movable(false)
	}
	if !s.d.Committed() || !s.Body.Stream || s.x.Buffered() {
		return nil
	}
	return s.client.send(s.d.Release())
}

// decide commits to the draft when its time has come, or asks the target first.
func (s *speculate) decide(ctx context.Context) {
	waited := s.World.Now().Sub(s.started)-s.asking >= s.Config.Holdback
	switch s.d.Decide(waited) {
	case accept.Wait:
		return
	case accept.Doubt:
		s.record.Marked(s.d.Track())
		if s.watcher != nil {
			s.watcher.Decided()
		}
		if s.d.Heard(promised(s.Trial, s.ask(ctx))); !s.d.Committed() {
			return
		}
	case accept.Commit:
		s.record.Marked(s.d.Track())
	}
	s.ruled(s.d.Early())
	s.from(plan.Draft)
	s.record.Committed(s.d.Tokens())
}

// promised holds what the target said of a doubtful head against the threshold of such.
func promised(t *plan.Trial, c *accept.Check) *accept.Check {
	if c == nil || t == nil || !c.Pass || float64(c.Score) >= t.Head.Threshold {
		return c
	}
	refused := *c
	refused.Pass, refused.Reason = false, accept.ReasonDisagrees
	return &refused
}
