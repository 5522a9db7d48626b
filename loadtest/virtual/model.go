package virtual

import (
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/economy"
)

// The ways of answering that the formulas tell apart, with their letters in [economy.EstimateCost].
const (
	straight = iota // T: by the target alone
	unasked         // C: drafted, and the target was not asked: the draft's own confidence decides after m tokens
	whole           // W: it was asked about the whole draft before anything was released
	ways
)

// ended sums up what the answers of the measured time were like, by the way that they
// were made.
type ended struct {
	answers, accepted, rejected [ways]float64
	prompt, output              [ways]float64 // tokens
	holdback, salvaged          [ways]float64 // tokens of rejected drafts; of these, in the answer
}

func (e *ended) add(o *loadtest.Outcome) {
	way := straight
	switch {
	case o.Acceptance != "accepted" && o.Acceptance != "rejected":
	case !o.TargetChecked:
		way = unasked
	default:
		way = whole
	}
	e.answers[way]++
	e.prompt[way] += float64(o.PromptTokens)
	e.output[way] += float64(o.DraftTokens + o.TargetTokens)
	switch o.Acceptance {
	case "accepted":
		e.accepted[way]++
	case "rejected":
		e.rejected[way]++
		e.holdback[way] += float64(o.Drafted)
		e.salvaged[way] += float64(o.DraftTokens)
	}
}

// model is what a million tokens should have cost by docs/science.md, Cost model, from this run's
// own lengths, acceptance and costs. A prompt token costs what is computed of it, except
// where it is scored, which computes all of it, and its logprobs.
func (l *lab) model() float64 {
	target := l.pools["target"]
	full, decode, hit := target.Costs()
	p := economy.Prices{TargetPrefill: full * (1 - hit), TargetDecode: decode}
	if draft := l.pools["draft"]; draft != nil {
		perPrompt, perToken, found := draft.Costs()
		p.DraftPrefill, p.DraftDecode = perPrompt*(1-found), perToken
	}
	scored := p
	scored.TargetPrefill = full * (1 + target.Profile.LMHead)
	e, usd, tokens := &l.answered, 0.0, 0.0
	for way, n := range e.answers {
		if n == 0 {
			continue
		}
		w := workload{Prompt: e.prompt[way] / n, Output: e.output[way] / n, Acceptance: e.accepted[way] / n}
		if e.rejected[way] > 0 && e.holdback[way] > 0 {
			w.Holdback, w.Salvaged = e.holdback[way]/e.rejected[way], e.salvaged[way]/e.holdback[way]
		}
		prices := p
		if way == whole {
			prices = scored
		}
		usd += costOf(way, prices, w) * e.output[way]
		tokens += e.output[way]
	}
	if tokens == 0 {
		return 0
	}
	return usd / tokens
}

// workload is the input of [costOf], by the symbols of [economy.EstimateCost].
type workload struct {
	Prompt, Output float64 // P and L, tokens; the output is above 0
	Holdback       float64 // m, tokens; of no use where the whole draft is checked
	Acceptance     float64 // A, 0..1
	Salvaged       float64 // g, 0..1: of the whole draft where that is checked
}

// costOf is what a million output tokens cost in a way, in USD, by the formulas of docs/science.md#cost-model. It is what
// measurements are held against; requests are decided by [economy.EstimateCost], which also knows salvage without a score.
func costOf(way int, p economy.Prices, w workload) float64 {
	cDP, cDD, cTP, cTD := p.DraftPrefill, p.DraftDecode, p.TargetPrefill, p.TargetDecode
	pr, l, m, a, g := w.Prompt, w.Output, w.Holdback, w.Acceptance, w.Salvaged
	var c float64
	switch way {
	case unasked:
		c = pr*cDP + (a*l+(1-a)*m)*cDD + (1-a)*(pr*cTP+l*cTD)
	case whole:
		c = pr*cDP + l*cDD + (pr+l)*cTP + (1-a)*(1-g)*l*cTD
	default:
		c = pr*cTP + l*cTD
	}
	return c / l * 1e6
}
