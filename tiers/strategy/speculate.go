package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
)

// speculate streams a draft to the client once its first tokens were accepted, and keeps judging the rest.
type speculate struct {
	draftRun
}

func (s *speculate) run(ctx context.Context) error { return s.draftRun.run(ctx, s.step) }

// step judges the tokens so far and sends those that are accepted.
func (s *speculate) step(ctx context.Context) error {
	before := s.d.Committed()
	if s.decide(ctx); s.d.Rejected() {
		return nil
	}
	if !before && s.d.Committed() && !s.Config.MidstreamFailover {
		s.x.SetMovable(false)
	}
	if !s.d.Committed() || !s.Body.Stream || s.x.Buffered() {
		return nil
	}
	return s.client.send(s.d.Release())
}

// decide commits to the draft when the hold-back is over, or asks the target first if the score is doubtful.
func (s *speculate) decide(ctx context.Context) {
	if s.d.Committed() {
		return
	}
	waited := s.World.Now().Sub(s.started)-s.checking >= s.Config.Holdback
	switch s.d.Decide(waited) {
	case accept.Wait:
		return
	case accept.CheckTarget:
		s.record.RecordScores(s.d.ScoreSeries())
		if s.watcher != nil {
			s.watcher.MarkDecided()
		}
		if s.d.ApplyCheck(applyHeadThreshold(s.AuditDecision, s.checkTarget(ctx))); !s.d.Committed() {
			return
		}
	case accept.Commit:
		s.record.RecordScores(s.d.ScoreSeries())
	}
	s.recordVerdict(s.d.EarlyVerdict())
	s.setTier(plan.Draft)
	s.record.RecordCommit(s.d.Tokens())
}

// applyHeadThreshold rejects a head that the target accepted with a score below the certified threshold of head checks.
func applyHeadThreshold(t *plan.AuditDecision, c *accept.Check) *accept.Check {
	if c == nil || t == nil || !c.Pass || float64(c.Score) >= t.Head.Threshold {
		return c
	}
	refused := *c
	refused.Pass, refused.Reason = false, accept.ReasonTargetDisagrees
	return &refused
}
