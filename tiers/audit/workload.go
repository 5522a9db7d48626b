package audit

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Workload is what the requests of one evidence key are like at this replica. The zero value says that none is known.
type Workload struct {
	PerDay   float64 // requests
	Prompt   float64 // tokens of a prompt, on average
	Output   float64 // tokens of an answer, on average
	Holdback float64 // tokens of a draft that was not served, until it was given up, on average; 0: no such draft is known
	Salvaged float64 // share of these that are in the answer, 0 … 1
}

const (
	// workloadMemory is the time in which the weight of a request falls to 1/e.
	workloadMemory = time.Hour
	// minWorkloadAge is the least time that a rate is computed over: the first requests may come in a burst.
	minWorkloadAge = time.Minute
)

// Economics returns what the requests are like at prices, and what a threshold saves of them a day. Without a threshold
// drafts are made in the background, to notice if that changes.
func (w Workload) Economics(p economy.Prices, c *plan.Config) risk.Economics {
	return risk.Economics{Label: string(c.Risk.Label), PerDay: w.PerDay, Priced: p.Complete(), Saved: func(share float64, serves bool) (usd, tokens float64) {
		audit := (w.Prompt + w.Output) * p.TargetPrefill // the target reads the prompt and the draft
		if !serves {
			return 0 - w.PerDay*c.Risk.Rates.Explore*(w.Prompt*p.DraftPrefill+w.Output*p.DraftDecode+audit), 0
		}
		sums := economy.EstimateCost(p, economy.Shape{Prompt: int(w.Prompt), Holdback: c.HoldbackTokens},
			economy.Expectation{Samples: 1, UpperBound: share, Output: w.Output, Holdback: w.Holdback, Salvaged: w.Salvaged})
		rest := (1 - share) * max(w.Output-sums.Holdback, 0) * p.DraftDecode // an audited draft is read to its end
		return w.PerDay * (sums.SavingUSD() - c.Risk.Rates.Audit*(audit+rest)), w.PerDay * share * w.Output
	}}
}

// workload holds exponentially decaying sums over the requests of one key.
type workload struct {
	since, at                time.Time // of the first and of the last request
	requests, prompt, output float64
	rejected, made, kept     float64 // drafts that were not served, their tokens, those in answers
}

// decay lowers the weight of what is known.
func (w *workload) decay(now time.Time) {
	keep := math.Exp(-max(now.Sub(w.at), 0).Seconds() / workloadMemory.Seconds())
	for _, sum := range []*float64{&w.requests, &w.prompt, &w.output, &w.rejected, &w.made, &w.kept} {
		*sum *= keep
	}
	w.at = now
}

// add counts a whole answer. judged says that a draft was made for it and judged.
func (w *workload) add(t Tally, judged bool, now time.Time) {
	if w.since.IsZero() {
		w.since, w.at = now, now
	}
	w.decay(now)
	w.requests++
	w.prompt += float64(t.Prompt)
	w.output += float64(t.Accepted + t.Target)
	if judged && t.Target > 0 {
		w.rejected++
		w.made += float64(t.Drafted)
		w.kept += float64(min(t.Accepted, t.Drafted))
	}
}

// view returns what is known at a time.
func (w *workload) view(now time.Time) Workload {
	if w.requests == 0 {
		return Workload{}
	}
	if now.Before(w.at) {
		now = w.at
	}
	at := *w
	at.decay(now)
	memory := workloadMemory.Seconds()
	seconds := memory * -math.Expm1(-max(now.Sub(w.since), minWorkloadAge).Seconds()/memory)
	v := Workload{PerDay: at.requests / seconds * (24 * time.Hour).Seconds(), Prompt: w.prompt / w.requests, Output: w.output / w.requests}
	if w.made > 0 {
		v.Holdback, v.Salvaged = w.made/w.rejected, w.kept/w.made
	}
	return v
}
