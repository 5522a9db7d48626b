package virtual

import (
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/economy"
)

// audit has the draft judged to its end, for as many requests as the scenario says.
func (r *request) audit() {
	l := r.lab
	if l.census != nil || l.audits >= l.scenario.Audits || r.out.At < l.scenario.Warmup {
		return
	}
	l.audits++
	score, stands := l.judge.Audit(r.req, r.prompt, l.values.Tiers.Accept)
	r.out.Audited, r.out.Score, r.out.Stood = true, float64(score), stands
}

// spent is what the engines of a tier computed in the measured time.
type spent struct {
	decoded, prefilled, scored int // tokens
}

func (s *spent) add(o spent) {
	s.decoded += o.decoded
	s.prefilled += o.prefilled
	s.scored += o.scored
}

func (s *spent) sub(o spent) { s.add(spent{-o.decoded, -o.prefilled, -o.scored}) }

// The ways of answering that the formulas tell apart.
const (
	straight = iota // by the target alone
	unasked         // drafted, and the target was not asked
	head            // it was asked about the first tokens
	whole           // or about all of them
	ways
)

// ended sums up what the answers of the measured time were like, by the way that they
// were made.
type ended struct {
	answers, accepted, rejected [ways]float64
	prompt, output              [ways]float64 // tokens
	held, salvaged              [ways]float64 // tokens of rejected drafts; of these, in the answer
}

func (e *ended) add(o *loadtest.Outcome, holds bool) {
	way := straight
	switch {
	case o.Acceptance != "accepted" && o.Acceptance != "rejected":
	case !o.Asked:
		way = unasked
	case holds:
		way = whole
	default:
		way = head
	}
	e.answers[way]++
	e.prompt[way] += float64(o.PromptTokens)
	e.output[way] += float64(o.DraftTokens + o.TargetTokens)
	switch o.Acceptance {
	case "accepted":
		e.accepted[way]++
	case "rejected":
		e.rejected[way]++
		e.held[way] += float64(o.Drafted)
		e.salvaged[way] += float64(o.DraftTokens)
	}
}

// costs are what a tier's tokens cost at the batch that it worked with: its price over the
// measured rates. Of the time that its engines were busy, prefill is what the profile
// says of the tokens that were computed, and decoding is all the rest, so that what a
// step costs anyway counts as decoding; hit is the share of the prompts that was found in
// their caches.
func (t *tier) costs() (prefill, decode, hit float64) {
	var did spent
	var u loadtest.Usage
	for _, b := range t.backends {
		now := b.spent
		now.sub(b.spentBefore)
		did.add(now)
		b.addUsage(&u)
	}
	perSecond := t.def.USDPerHour / time.Hour.Seconds()
	per := t.profile.PerPrefillToken
	if did.decoded > 0 {
		prefilling := per * (float64(did.prefilled) + float64(did.scored)*t.profile.LMHead)
		decode = perSecond * (u.Busy.Seconds() - prefilling) / float64(did.decoded)
	}
	if u.PrefixQueries > 0 {
		hit = float64(u.PrefixHits) / float64(u.PrefixQueries)
	}
	return perSecond * per, decode, hit
}

// model is what a million tokens should have cost by acceptance.md §2.2, from this run's
// own lengths, acceptance and costs. A prompt token costs what is computed of it, except
// where it is scored, which computes all of it, and its logprobs.
func (l *lab) model() float64 {
	target := l.tiers["target"]
	full, decode, hit := target.costs()
	p := economy.Prices{TargetPrefill: full * (1 - hit), TargetDecode: decode}
	if draft := l.tiers["draft"]; draft != nil {
		perPrompt, perToken, found := draft.costs()
		p.DraftPrefill, p.DraftDecode = perPrompt*(1-found), perToken
	}
	scored := p
	scored.TargetPrefill = full * (1 + target.profile.LMHead)
	e, usd, tokens := &l.answered, 0.0, 0.0
	for way, mode := range [ways]economy.Mode{economy.TargetOnly, economy.Confidence, economy.HeadCheck, economy.WholeCheck} {
		n := e.answers[way]
		if n == 0 {
			continue
		}
		w := economy.Workload{Prompt: e.prompt[way] / n, Output: e.output[way] / n, Acceptance: e.accepted[way] / n}
		if e.rejected[way] > 0 && e.held[way] > 0 {
			w.Held, w.Salvaged = e.held[way]/e.rejected[way], e.salvaged[way]/e.held[way]
		}
		prices := p
		if way == head || way == whole {
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
