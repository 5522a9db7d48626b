package economy

// The bounds of [ShouldCheckHead] and [ShouldCheckWhole].
const (
	confidentFrom = 0.80 // from this AUROC on the draft's own score is as good as a check by the target
	minRatio      = 5.0  // least ratio of the pools' decode prices at which a score saves enough
	maxScore      = 0.5  // largest cost of a score, as a share of the cost of answering
	maxLoad       = 0.85 // largest KV usage of the target for scoring
)

// Why a score does not pay.
const (
	ReasonLoad       = "load"        // the target is too full
	ReasonLongPrompt = "long_prompt" // the prompt is longer than the answer
	ReasonConfidence = "confidence"  // the draft's own score separates good from bad drafts well enough
	ReasonPriceRatio = "price_ratio" // the target's tokens are not expensive enough
	ReasonScoreCost  = "score_cost"  // scoring costs more than half of answering
)

// ShouldCheckHead reports whether it is worth the target's time to score the first held tokens of
// a draft whose confidence is doubtful, and if not, why. Prompt and output are in tokens,
// the output as expected. auroc is how well confidence tells good from bad drafts on the
// route, as measured from audits (0.5 is not at all, 1 perfectly); 0 is not measured yet
// and taken for what the literature reports, .70–.78, where scoring wins. load is the
// share of the target's KV cache in use, 0..1.
//
// The rules: with AUROC ≥ .80 use confidence only; below, verification of the
// doubtful band wins if P ≤ L and the decode price ratio is ≥ 5; and do not verify where
// the score costs more than half of the answer, for a head (P+m)·c_tp >
// 0.5·(P·c_tp + L·c_td). Rules that need a price which is unknown do not apply.
func ShouldCheckHead(p Prices, prompt, output, holdback, auroc, load float64) (worthwhile bool, why string) {
	return shouldCheck(p, prompt, output, min(holdback, output), auroc, load)
}

// ShouldCheckWhole is [ShouldCheckHead] for scoring a whole answer before anything of it is released:
// the same rules with m = L.
func ShouldCheckWhole(p Prices, prompt, output, auroc, load float64) (worthwhile bool, why string) {
	return shouldCheck(p, prompt, output, output, auroc, load)
}

func shouldCheck(p Prices, prompt, output, scored, auroc, load float64) (worthwhile bool, why string) {
	switch {
	case load > maxLoad:
		return false, ReasonLoad
	case prompt > output:
		return false, ReasonLongPrompt
	case auroc >= confidentFrom:
		return false, ReasonConfidence
	case !p.Complete():
		return true, ""
	case p.TargetDecode < minRatio*p.DraftDecode:
		return false, ReasonPriceRatio
	case (prompt+scored)*p.TargetPrefill > maxScore*(prompt*p.TargetPrefill+output*p.TargetDecode):
		return false, ReasonScoreCost
	}
	return true, ""
}
