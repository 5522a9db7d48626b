package tiers

import "context"

// speculateWhole drafts an answer that may call tools.
func (j *job) speculateWhole(context.Context) error {
	j.receipt.Plan.Judged, j.receipt.Plan.Reason = false, "tools"
	return errNoDraft
}
