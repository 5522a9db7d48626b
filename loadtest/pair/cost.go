package pair

import "fmt"

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
func (m *run) noCosts() string {
	const ofDraft, ofTarget = "--draft-usd-per-million", "--target-usd-per-million"
	switch draft, target := m.DraftPrice.known(), m.TargetPrice.known(); {
	case !draft && !target:
		return "no prices were given (" + ofTarget + " and " + ofDraft + ")"
	case !draft:
		return "no prices of the draft were given (" + ofDraft + ")"
	case !target:
		return "no prices of the target were given (" + ofTarget + ")"
	case !sendsUsage(m.alone):
		return "the target sends no usage with its answers, so the tokens of its prompts are not known"
	case !sendsUsage(m.ways[wayDraft]):
		return "the draft sends no usage with its answers, so the tokens of its prompts are not known"
	}
	return ""
}

// price sets the dollars of each way, if the prices and the tokens are known.
func (m *run) price() {
	if m.noCosts() != "" {
		return
	}
	for i := range m.report.Ways {
		if w := &m.report.Ways[i]; w.Answers > 0 {
			usd := w.Work.usd(m.DraftPrice, m.TargetPrice)
			w.USD = &usd
		}
	}
}

// costs are the dollars of each mode beside the target alone.
func (m *run) costs() (all []Measure) {
	if why := m.noCosts(); why != "" {
		return []Measure{{Name: "cost of the modes beside the target alone", Why: why + "; tokens are below"}}
	}
	for _, name := range []string{wayRisk, wayConfidence, wayVerify, wayLenient} {
		all = append(all, m.cost(name))
	}
	return all
}

// cost compares a mode with the target alone, by the questions that were answered in both ways.
func (m *run) cost(mode string) Measure {
	one := Measure{Name: "cost of mode " + mode + " beside the target alone, without audits"}
	samples := m.ways[mode]
	if len(samples) == 0 {
		one.Why = orOver(m.way(mode).Why)
		return one
	}
	own := answered(m.alone)
	var with, without Work
	for i := range samples {
		if s := &samples[i]; s.err == nil && own[s.prompt] != nil {
			one.Of++
			with.add(s)
			without.add(own[s.prompt])
		}
	}
	if one.Of == 0 {
		one.Why = "no question was answered both in this mode and by the target alone"
		return one
	}
	ratio := with.usd(m.DraftPrice, m.TargetPrice) / without.usd(m.DraftPrice, m.TargetPrice)
	one.Value = &ratio
	if asked := m.way(mode).Asked; asked > one.Of {
		one.Why = fmt.Sprintf("%d of %d questions were not answered in both ways", asked-one.Of, asked)
	}
	return one
}
