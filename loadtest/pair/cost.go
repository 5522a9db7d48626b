package pair

// Work is what the engines computed for a way, in tokens. Audits are not in it.
type Work struct {
	DraftInput   int `json:"draft_input"`
	DraftOutput  int `json:"draft_output"`
	TargetInput  int `json:"target_input"`  // prompts, and beginnings of answers that it continued
	TargetOutput int `json:"target_output"` //
	Scored       int `json:"scored"`        // by the target for checks, prompts included
}

// add adds what one answer took.
func (w *Work) add(s *sample) {
	rc := s.receipt
	switch {
	case rc != nil:
	case s.tier == poolDraft:
		w.DraftInput += s.promptTokens()
		w.DraftOutput += s.tokens()
		return
	default:
		w.TargetInput += s.promptTokens()
		w.TargetOutput += s.tokens()
		return
	}
	if rc.Tokens.Drafted > 0 {
		w.DraftInput += rc.Tokens.Prompt
	}
	w.DraftOutput += rc.Tokens.Drafted
	if rc.Tokens.Target > 0 {
		w.TargetInput += rc.Tokens.Prompt + rc.Tokens.Accepted
	}
	w.TargetOutput += rc.Tokens.Target
	w.Scored += rc.Tokens.Scored
}

// usd is the price of the work.
func (w *Work) usd(draft, target Price) float64 {
	return (float64(w.DraftInput)*draft.Input + float64(w.DraftOutput)*draft.Output +
		float64(w.TargetInput+w.Scored)*target.Input + float64(w.TargetOutput)*target.Output) / 1e6
}

// sendsUsage reports whether an engine told the usage of all answers. Of the prompts of one that does not, the gateway has
// an estimate alone.
func sendsUsage(direct []sample) bool {
	for i := range direct {
		if s := &direct[i]; s.err == nil && s.promptTokens() == 0 {
			return false
		}
	}
	return true
}

// noCosts is why nothing has a price, "" if all has.
func (r *run) noCosts() string {
	switch {
	case !r.TargetPrice.known() || !r.DraftPrice.known():
		return "no prices were given (--target-usd-per-million and --draft-usd-per-million)"
	case !sendsUsage(r.alone), !sendsUsage(r.ways[wayDraft]):
		return "an engine sends no usage with its answers, so the tokens of its prompts are not known"
	}
	return ""
}

// price sets the dollars of each way, if the prices and the tokens are known.
func (r *run) price() {
	if r.report.NoCosts = r.noCosts(); r.report.NoCosts != "" {
		return
	}
	for i := range r.report.Ways {
		if w := &r.report.Ways[i]; w.Answers > 0 {
			usd := w.Work.usd(r.DraftPrice, r.TargetPrice)
			w.USD = &usd
		}
	}
}
