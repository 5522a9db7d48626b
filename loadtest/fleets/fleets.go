// Package fleets seeks, for each of a grid of fleets, the highest load that it carries within an SLO, in virtual time, and
// tells what a token costs in rent there. Start at [Search]; [Grid] is what is sought.
package fleets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/virtual"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// MaxTTFT99 is the SLO: nothing is lost, and P99 TTFT is at most this.
const MaxTTFT99 = 2 * time.Second

// Engines are servers of one profile; none where Count is 0.
type Engines struct {
	Profile string
	Count   int
}

// Law says how good drafts are, and by which threshold mode confidence serves them.
type Law struct {
	Acceptance float64 // that the threshold gives in mode confidence, about
	AUROC      float64 // of the score, about
	divergence float64 // of the simulated draft
	blind      float64
	nats       string // the threshold
}

// laws are drafts of which the target would stand by four in five, and by two in three.
var laws = []Law{
	{0.7, 0.85, 0.34, 0, "0.02"},
	{0.45, 0.85, 0.42, 0, "0.15"},
	{0.7, 0.70, 0.31, 0.75, "0.02"},
	{0.45, 0.70, 0.38, 0.85, "0.15"},
}

// The modes of fleets with drafts: risk keeps the guarantee with risk.max_disagreement .10.
const (
	TargetOnly = "off"
	Confidence = "confidence"
	Risk       = "risk"
)

// Fleet is one fleet and what it serves by. Of a fleet without drafts Law is the zero value.
type Fleet struct {
	Target, Draft Engines
	Mode          string
	Law           Law
}

// String names a fleet, in a word for each part.
func (f Fleet) String() string {
	if f.Mode == TargetOnly {
		return fmt.Sprintf("%d×%s", f.Target.Count, f.Target.Profile)
	}
	return fmt.Sprintf("%d×%s+%d×%s %s acceptance=%g auroc=%g", f.Target.Count, f.Target.Profile, f.Draft.Count, f.Draft.Profile, f.Mode, f.Law.Acceptance, f.Law.AUROC)
}

// Grid is what is compared: each target with no drafts, and with drafts on each GPU for about the rent of one more target, and
// on one H100.
func Grid() (all []Fleet) {
	for _, g := range []struct {
		alone, target Engines
		drafts        []Engines
	}{
		{
			Engines{"h100-70b-fp8-tp2", 3}, Engines{"h100-70b-fp8-tp2", 2},
			[]Engines{{"h100-8b-fp8", 1}, {"h100-8b-fp8", 2}, {"l40s-8b-fp8", 7}, {"l4-8b-fp8", 16}, {"a10g-8b", 13}},
		},
		{
			Engines{"h100-405b-fp8-tp8", 2}, Engines{"h100-405b-fp8-tp8", 1},
			[]Engines{{"h100-8b-fp8", 1}, {"l40s-8b-fp8", 4}, {"l4-8b-fp8", 8}, {"a10g-8b", 7}},
		},
	} {
		all = append(all, Fleet{Target: g.alone, Mode: TargetOnly})
		for _, law := range laws {
			for _, mode := range []string{Confidence, Risk} {
				for _, draft := range g.drafts {
					all = append(all, Fleet{g.target, draft, mode, law})
				}
			}
		}
	}
	return all
}

// Found is the highest load of a fleet, and what it was like there. Times are in ms; shares 0 to 1.
type Found struct {
	Fleet        string             `json:"fleet"`
	Seed         uint64             `json:"seed"`
	PerSecond    float64            `json:"requests_per_s"`
	Tokens       float64            `json:"tokens_per_s"` // of answers
	TTFT50       float64            `json:"ttft_p50_ms"`
	TTFT99       float64            `json:"ttft_p99_ms"`
	E2E99        float64            `json:"e2e_p99_ms"`
	Acceptance   float64            `json:"acceptance"`
	DraftShare   float64            `json:"draft_token_share"`
	Disagreement float64            `json:"disagreement"`      // of accepted drafts
	Rent         map[string]float64 `json:"rent_usd_per_mtok"` // by price list
}

// The length of a run. In mode risk hours at a low load are before all runs of a fleet: no fleet certifies its thresholds at
// the load that it can only carry with them. In the first hour of a fitted score half of its drafts are audited; it is over then.
const (
	counted = 120 * time.Second
	warm    = 30 * time.Second
	before  = 3 * time.Hour
	quiet   = 4 // how many times lower the load is then than what the targets alone carry, about
)

// lab is what all searches share: the scenario, and the price lists. The gateway decides by the first list.
type lab struct {
	base   *loadtest.Scenario
	prices []vllmsim.PriceList
}

func newLab() (l lab, err error) {
	if l.base, err = loadtest.Named("fleets"); err == nil {
		l.prices, err = vllmsim.Prices()
	}
	return l, err
}

// at makes the scenario and the case of a fleet at a load, in requests a second.
func (l *lab) at(f Fleet, load float64) (_ *loadtest.Scenario, _ *loadtest.Case, err error) {
	s, c := *l.base, l.base.Cases[0]
	s.Warmup, s.Duration = warm, warm+counted
	c.Settings = loadtest.Settings{"cache.mode": "off", "speculation.mode": f.Mode}
	switch f.Mode {
	case Confidence:
		c.Settings["speculation.threshold_nats"] = f.Law.nats
	case Risk:
		c.Settings["risk.max_disagreement"] = "0.1"
	}
	c.Name, c.Load = f.String(), load/s.Arrivals.PerSecond
	c.Target.Profile, c.Target.Count = f.Target.Profile, f.Target.Count
	if c.Target.USDPerHour, err = Price(&l.prices[0], f.Target.Profile); err != nil || f.Mode == TargetOnly {
		return &s, &c, err
	}
	draft := *l.base.Cases[1].Draft
	draft.Profile, draft.Count, draft.Divergence, draft.Blind = f.Draft.Profile, f.Draft.Count, f.Law.divergence, f.Law.blind
	draft.USDPerHour, err = Price(&l.prices[0], f.Draft.Profile)
	c.Draft = &draft
	return &s, &c, err
}

// earlier runs the hours that are before all runs of a fleet; in other modes than risk there is none.
func (l *lab) earlier(ctx context.Context, f Fleet, seed uint64) (*virtual.Earlier, error) {
	nothing := new(virtual.Earlier)
	if f.Mode != Risk {
		return nothing, nil
	}
	alone, err := f.carried()
	if err != nil {
		return nil, err
	}
	s, c, err := l.at(f, alone/quiet)
	if err != nil {
		return nil, err
	}
	s.Duration = before
	_, known, err := nothing.Run(ctx, s, c, seed)
	return known, err
}

// measure runs a fleet at a load, and reports whether that holds the SLO.
func (l *lab) measure(ctx context.Context, f Fleet, load float64, seed uint64, earlier *virtual.Earlier) (found Found, holds bool, err error) {
	s, c, err := l.at(f, load)
	if err != nil {
		return found, false, err
	}
	r, _, err := earlier.Run(ctx, s, c, seed)
	if err != nil {
		return found, false, err
	}
	row := r.Row()
	return Found{
		Fleet: f.String(), Seed: seed, PerSecond: load, Tokens: row.TokensPerSecond * r.Window.Seconds() / counted.Seconds(),
		TTFT50: row.TTFT50, TTFT99: row.TTFT99, E2E99: row.E2E99,
		Acceptance: row.Acceptance, DraftShare: row.DraftTokenShare, Disagreement: row.CheckedDisagreement,
	}, row.Errors+row.Shed == 0 && row.TTFT99 <= float64(MaxTTFT99.Milliseconds()), nil
}

// rents are the dollars of rent for a million tokens, by price list, where the fleet makes so many a second.
func (l *lab) rents(f Fleet, tokens float64) (map[string]float64, error) {
	out := map[string]float64{}
	for i := range l.prices {
		usd := 0.0 // an hour
		for _, e := range []Engines{f.Target, f.Draft} {
			if e.Count == 0 {
				continue
			}
			one, err := Price(&l.prices[i], e.Profile)
			if err != nil {
				return nil, err
			}
			usd += float64(e.Count) * one
		}
		out[l.prices[i].Name] = usd * 1e6 / time.Hour.Seconds() / tokens
	}
	return out, nil
}

// Price is what an hour of one server costs, in dollars.
func Price(list *vllmsim.PriceList, profile string) (usd float64, err error) {
	p, err := vllmsim.ProfileByName(profile)
	return float64(p.GPUs) * list.USDPerGPUHour[p.GPU], err
}

// Search finds the highest load of a fleet.
func Search(ctx context.Context, f Fleet, seed uint64) (found Found, err error) {
	l, err := newLab()
	if err != nil {
		return found, err
	}
	guess, err := f.guess()
	if err != nil {
		return found, err
	}
	earlier, err := l.earlier(ctx, f, seed)
	if err != nil {
		return found, err
	}
	found = Found{Fleet: f.String(), Seed: seed} // where no load holds
	_, err = Highest(guess, precision, func(load float64) (bool, error) {
		tried, holds, err := l.measure(ctx, f, load, seed, earlier)
		if holds && load > found.PerSecond {
			found = tried
		}
		return holds, err
	})
	if err != nil || found.Tokens == 0 {
		return found, err
	}
	found.Rent, err = l.rents(f, found.Tokens)
	return found, err
}

// Again runs a fleet at the load and with the seed of a search.
func Again(ctx context.Context, was *Found) (is Found, err error) {
	at := slices.IndexFunc(Grid(), func(f Fleet) bool { return f.String() == was.Fleet })
	if at < 0 {
		return is, fmt.Errorf("there is no fleet %q", was.Fleet)
	}
	l, err := newLab()
	if err != nil {
		return is, err
	}
	f := Grid()[at]
	earlier, err := l.earlier(ctx, f, was.Seed)
	if err != nil {
		return is, err
	}
	is, _, err = l.measure(ctx, f, was.PerSecond, was.Seed, earlier)
	return is, err
}

// The search: by how much the second load differs from the first, and how near the end is. Runs above the end take longest.
const (
	step      = 1.25
	precision = 1.03
	least     = 0.1 // requests a second
)

// carried is about what the targets of a fleet carry, in requests a second: half of what they decode with 256 sequences each, in
// answers of 300 tokens.
func (f Fleet) carried() (float64, error) {
	p, err := vllmsim.ProfileByName(f.Target.Profile)
	_, decode := p.Rates(256)
	return float64(f.Target.Count) * decode / 300 / 2, err
}

// guess is about what a fleet carries: of accepted drafts its targets know nothing. Mode risk serves fewer, and audits.
func (f Fleet) guess() (float64, error) {
	load, err := f.carried()
	switch f.Mode {
	case Confidence:
		load /= 1 - f.Law.Acceptance
	case Risk:
		load /= 1 - f.Law.Acceptance/2
	}
	return load, err
}

// Highest is the highest load that holds, to a factor of precision above 1: 0 if none above [least] does. It begins at a load,
// and tries each once.
func Highest(load, precision float64, holds func(load float64) (bool, error)) (float64, error) {
	low, high := 0.0, 0.0
	for low == 0 || high == 0 || high > low*precision {
		ok, err := holds(load)
		if err != nil {
			return 0, err
		}
		if ok {
			low = load
		} else {
			high = load
		}
		switch {
		case high == 0:
			load *= step
		case low == 0:
			if load /= step; load < least {
				return 0, nil
			}
		default:
			load = (low + high) / 2
		}
	}
	return low, nil
}

// Match reports whether a fleet's name has all of the words.
func (f Fleet) Match(words []string) bool {
	for _, w := range words {
		if !strings.Contains(f.String(), w) {
			return false
		}
	}
	return true
}
