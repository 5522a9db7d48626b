package virtual

import (
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/economy"
)

// The ways of answering that the formulas tell apart.
const (
	straight = iota // by the target alone
	unasked         // drafted, and the target was not asked
	whole           // it was asked about all of them
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
	for way, mode := range [ways]economy.Mode{economy.TargetOnly, economy.Confidence, economy.WholeCheck} {
		n := e.answers[way]
		if n == 0 {
			continue
		}
		w := economy.Workload{Prompt: e.prompt[way] / n, Output: e.output[way] / n, Acceptance: e.accepted[way] / n}
		if e.rejected[way] > 0 && e.holdback[way] > 0 {
			w.Holdback, w.Salvaged = e.holdback[way]/e.rejected[way], e.salvaged[way]/e.holdback[way]
		}
		prices := p
		if way == whole {
			prices = scored
		}
		usd += economy.Model(mode, prices, w) * e.output[way]
		tokens += e.output[way]
	}
	if tokens == 0 {
		return 0
	}
	return usd / tokens
}
