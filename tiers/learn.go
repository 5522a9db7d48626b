package tiers

import "github.com/foregate/foregate/tiers/economy"

// learn writes what became of the request into the book that the next are weighed by. What
// failed, and what was never to be drafted, says nothing of drafts.
func (j *job) learn(err error) {
	rc := j.receipt
	shut := rc.Plan.Reason == economy.NoSaving || rc.Plan.Reason == economy.TTFT
	if err != nil || !rc.judged() && !shut {
		return
	}
	served := rc.Tier == Draft && rc.Verdict.Accept
	j.cascade.book.Learn(bucketOf(j.ask.Request, rc.Plan), economy.Outcome{
		Drafted: rc.judged(), Served: served,
		Prompt: rc.PromptTokens, Output: rc.AcceptedTokens + rc.TargetTokens,
		Held: rc.DraftedTokens, Salvaged: rc.AcceptedTokens,
		FirstByte: rc.First, TargetFirst: rc.Target,
	})
}

// Book is what was learned of drafts, for metrics and status.
func (c *Cascade) Book() *economy.Book { return c.book }
