package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// speculate streams a draft to the client once its first tokens were accepted, and keeps judging the rest.
type speculate struct {
	draftRun
}

func (s *speculate) run(ctx context.Context) error { return s.draftRun.run(ctx, s.step) }

// step judges the tokens so far and sends those that are accepted.
func (s *speculate) step(context.Context) error {
	before := s.d.Committed()
	if s.decide(); s.d.Rejected() {
		return nil
	}
	if !before && s.d.Committed() && !s.Config.MidstreamFailover {
		s.x.SetMovable(false)
	}
	if !s.d.Committed() || !s.Body.Stream || s.x.Buffered() {
		return nil
	}
	text := s.d.Release()
	return s.client.send(text, openai.Usage{Prompt: s.d.PromptTokens(), Completion: s.d.Transcript().TokensSent()})
}

// decide commits to the draft when the hold-back is over and its score is accepted.
func (s *speculate) decide() {
	if s.d.Committed() || !s.d.Decide(s.waited) {
		return
	}
	s.record.RecordScores(s.d.ScoreSeries())
	s.recordVerdict(s.d.EarlyVerdict())
	s.setTier(plan.Draft)
	s.record.RecordCommit(s.d.Tokens())
}
