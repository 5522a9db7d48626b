package proof

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest/fleets"
)

// Rent measures by two searches of loadtest fleets: what a million tokens cost in rent, by AWS' list, where each fleet carries
// as much as it can within the SLO. A pair of each seed that both have.
type Rent struct {
	Alone, Fleet string // as [fleets.Fleet.String] names them
	Again        bool   // make proof runs the fleet of the first seed again, at the load that was found
}

func (Rent) source() {}

// The fleets of the claims.
const (
	alone70B  = "3×h100-70b-fp8-tp2"
	beside70B = "2×h100-70b-fp8-tp2+"
	alone405B = "2×h100-405b-fp8-tp8"
	rentList  = "aws"
)

// rentClaims are about whole fleets at the SLO: those that keep the guarantee first, and the losing ones, too.
func rentClaims() []Claim {
	claim := func(id, text string, goal Goal, s Rent) Claim {
		return Claim{ID: id, Text: text, Unit: dollars, Goal: goal, Source: s}
	}
	guarantee := claim("rent-guarantee", "rent per million tokens at the SLO, with the guarantee (mode risk, ε = .10): two servers of a 70B and one H100 with an 8B, beside three servers of the 70B alone",
		ratioAtMost(0.75), Rent{alone70B, beside70B + "1×h100-8b-fp8 risk acceptance=0.7 auroc=0.85", false})
	guarantee.Headline = "with the guarantee (at most 10 % disagreement): rent of a token at the largest load within the SLO, two servers of a 70B and one GPU of drafts, beside three servers alone (simulated; the score's AUROC is .85)"
	guarantee.Note = "The claims of rent have the seeds that the [table of fleets](#fleets) names. The score tells good drafts from bad ones better (AUROC .85) than that of the [real pair](#real-pairs) that was measured (.66 to .72)."
	poor := claim("rent-guarantee-poor", "the same, with a score that tells good drafts from bad ones no better than a real pair's (AUROC .70)", Goal{},
		Rent{alone70B, beside70B + "1×h100-8b-fp8 risk acceptance=0.7 auroc=0.7", false})
	few := claim("rent-guarantee-few", "the same (AUROC .85), where the threshold accepts fewer drafts (.45)", Goal{},
		Rent{alone70B, beside70B + "1×h100-8b-fp8 risk acceptance=0.45 auroc=0.85", false})
	a10g := claim("rent-guarantee-a10g", "the same (.7, AUROC .85), with the 8B on thirteen A10G: the wrong GPU", Goal{},
		Rent{alone70B, beside70B + "13×a10g-8b risk acceptance=0.7 auroc=0.85", false})
	fixed := claim("rent-threshold", "the same fleets, with a fixed threshold and no guarantee (mode confidence); the disagreement is in the table of fleets",
		ratioAtMost(0.55), Rent{alone70B, beside70B + "1×h100-8b-fp8 confidence acceptance=0.7 auroc=0.85", true})
	large := claim("rent-405b", "one server of a 405B and one H100 with an 8B, beside two servers of the 405B alone, with a fixed threshold",
		ratioAtMost(0.40), Rent{alone405B, "1×h100-405b-fp8-tp8+1×h100-8b-fp8 confidence acceptance=0.7 auroc=0.85", true})
	return []Claim{guarantee, poor, few, a10g, fixed, large}
}

// TakeRents makes the figures of claims about rent those of searches.
func (r *Results) TakeRents(claims []Claim, found []fleets.Found) {
	for i := range claims {
		s, ok := claims[i].Source.(Rent)
		if !ok {
			continue
		}
		r.Virtual[claims[i].ID] = nil
		for _, is := range found {
			was := slices.IndexFunc(found, func(f fleets.Found) bool { return f.Fleet == s.Alone && f.Seed == is.Seed })
			if is.Fleet == s.Fleet && was >= 0 {
				r.Virtual[claims[i].ID] = append(r.Virtual[claims[i].ID], Pair{found[was].Rent[rentList], is.Rent[rentList]})
			}
		}
	}
}

// fleetsAgain runs the fleets of claims again, one seed of each at the load that was found, and tells what they did otherwise.
func (o *Options) fleetsAgain(ctx context.Context) (changed []string, err error) {
	for i := range o.Claims {
		s, ok := o.Claims[i].Source.(Rent)
		at := slices.IndexFunc(o.Fleets, func(f fleets.Found) bool { return f.Fleet == s.Fleet })
		if !ok || !s.Again || at < 0 {
			continue
		}
		was := &o.Fleets[at]
		o.Say("fleets: %s at %.1f requests/s again", s.Fleet, was.PerSecond)
		is, err := fleets.Again(ctx, was)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Fleet, err)
		}
		if was.Tokens != is.Tokens || was.TTFT99 != is.TTFT99 || was.Disagreement != is.Disagreement {
			changed = append(changed, fmt.Sprintf("%s, seed %d: %g tokens/s, TTFT P99 %g ms, disagreement %g; the search found %g, %g, %g",
				is.Fleet, is.Seed, is.Tokens, is.TTFT99, is.Disagreement, was.Tokens, was.TTFT99, was.Disagreement))
		}
	}
	return changed, nil
}

func fleetSection(found []fleets.Found) section {
	out := section{
		Title: "Fleets",
		About: "`bin/loadtest fleets` seeks the highest load at which a fleet loses nothing and has a P99 TTFT of at most 2 s, in virtual time, and divides its rent by the tokens of answers there. " +
			"Requests are a chat of about 500 tokens of prompt and 300 of answer, at temperature 1, whose clients leave after a minute: that is lost, too. Settings are the defaults, without the cache. Means over the seeds, and the range of rents. " +
			"*Acceptance* is what the threshold of mode confidence is meant to accept, and in brackets what was accepted; *AUROC* is how well the score tells good drafts from bad ones (.66 to .72 at [a real pair](#real-pairs)); " +
			"*disagreement* is the share of the served drafts that the target would refuse. × is the rent of a token beside the target alone. Mode risk starts from three hours of evidence at a low load.",
	}
	out.Grids = []grid{{Text: "Not measured."}}
	if len(found) > 0 {
		out.Grids[0].Text = strings.TrimSpace(fleets.Table(found))
	}
	return out
}
