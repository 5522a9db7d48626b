package pair

import (
	"fmt"
	"strings"
)

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

// silent are the engines that send no usage. Of their prompts the gateway has an estimate alone.
type silent struct{ draft, target bool }

// sendsUsage reports whether an engine told the usage of an answer. Without any answer nobody knows.
func sendsUsage(direct []sample) bool {
	for i := range direct {
		if s := &direct[i]; s.err == nil && s.promptTokens() > 0 {
			return true
		}
	}
	return false
}

// silent are the engines that sent no usage when they were asked alone. name is a way of the gateway.
func (m *run) silent(name string) silent {
	no := silent{draft: !sendsUsage(m.ways[wayDraft]), target: !sendsUsage(m.alone)}
	if name == waySeams {
		no.draft = no.target
	}
	return no
}

// counted reports whether it is known how many tokens an answer took.
func (s *sample) counted(no silent) bool {
	rc := s.receipt
	if rc == nil {
		return s.promptTokens() > 0
	}
	return rc.Tokens.Prompt > 0 && !no.target && (!no.draft || rc.Tokens.Drafted == 0)
}

// price sets the dollars, if the prices and the tokens are known.
func (w *Way) price(draft, target Price) {
	switch {
	case !draft.known() || !target.known() || w.Answers == 0:
	case w.Uncounted > 0:
		w.WhyNoUSD = fmt.Sprintf("no USD: the tokens of %d of %d answers are not known, because an engine sends no usage", w.Uncounted, w.Answers)
	default:
		usd := w.Work.usd(draft, target)
		w.USD = &usd
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

// noCosts is why no mode can be compared with the target alone, "" if one can.
func (m *run) noCosts() string {
	const ofDraft, ofTarget = "--draft-usd-per-million", "--target-usd-per-million"
	switch draft, target := m.DraftPrice.known(), m.TargetPrice.known(); {
	case !draft && !target:
		return "no prices were given (" + ofTarget + " and " + ofDraft + ")"
	case !draft:
		return "no prices of the draft were given (" + ofDraft + ")"
	case !target:
		return "no prices of the target were given (" + ofTarget + ")"
	}
	if m.silent("").target {
		return "the target sends no usage with its answers, so the tokens of its prompts are not known"
	}
	return ""
}

// cost compares a mode with the target alone, by the questions that were answered in both ways.
func (m *run) cost(mode string) Measure {
	one := Measure{Name: "cost of mode " + mode + " beside the target alone, without audits"}
	samples := m.ways[mode]
	if len(samples) == 0 {
		one.Why = orOver(m.way(mode).Why)
		return one
	}
	own, no := answered(m.alone), m.silent(mode)
	var with, without Work
	both, unknown := 0, 0
	for i := range samples {
		s := &samples[i]
		a := own[s.prompt]
		if s.err != nil || a == nil {
			continue
		}
		both++
		switch {
		case !s.counted(no):
			unknown++
		case a.counted(no):
			one.Of++
			with.add(s)
			without.add(a)
		}
	}
	switch {
	case both == 0:
		one.Why = "no question was answered both in this mode and by the target alone"
	case unknown > 0 && no.draft: // the other questions are those that the target answered: their cost says nothing of the mode
		one.Why = "the draft sends no usage with its answers, so the tokens of its prompts are not known"
	case unknown > 0 || one.Of == 0:
		one.Why = "the tokens of some answers are not known, because they came without usage"
	default:
		ratio := with.usd(m.DraftPrice, m.TargetPrice) / without.usd(m.DraftPrice, m.TargetPrice)
		one.Value, one.Why = &ratio, leftOut(len(m.list), both, one.Of)
		return one
	}
	one.Of = 0
	return one
}

// leftOut says why questions are not in a comparison, "" if all are.
func leftOut(all, both, compared int) string {
	var why []string
	if both < all {
		why = append(why, fmt.Sprintf("%d of %d questions were not answered in both ways", all-both, all))
	}
	if compared < both {
		why = append(why, fmt.Sprintf("to %d of %d questions the target alone sent no usage", both-compared, all))
	}
	return strings.Join(why, "; ")
}
