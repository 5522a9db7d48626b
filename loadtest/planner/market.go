package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Market is what may be rented.
type Market struct {
	Targets, Drafts []vllmsim.Profile // drafts: those of which a token costs least come first
	Prices          vllmsim.PriceList
	Away            int // servers of each pool that may be away while the SLO holds
}

// NewMarket has the profiles of two models for which there is a price; draft "none" is without drafts. Reasons tell which
// profiles have none.
func NewMarket(target, draft string, prices vllmsim.PriceList) (m Market, reasons []string, err error) {
	m.Prices = prices
	models := map[string]bool{}
	for _, name := range vllmsim.ProfileNames() {
		p, err := vllmsim.ProfileByName(name)
		if err != nil {
			return m, nil, err
		}
		models[p.Model] = true
		switch wanted := p.Model == target || p.Model == draft; {
		case wanted && prices.USDPerGPUHour[p.GPU] == 0:
			reasons = append(reasons, fmt.Sprintf("%s: the prices have no %s", name, p.GPU))
		case p.Model == target:
			m.Targets = append(m.Targets, p)
		case p.Model == draft:
			m.Drafts = append(m.Drafts, p)
		}
	}
	for _, model := range []string{target, draft} {
		if !models[model] && model != "none" {
			var known []string
			for name := range models {
				known = append(known, name)
			}
			slices.Sort(known)
			return m, nil, fmt.Errorf("no profile has the model %s; known: %s", model, strings.Join(known, ", "))
		}
	}
	if len(m.Targets) == 0 {
		return m, nil, fmt.Errorf("no server for %s has a price: %s", target, strings.Join(reasons, "; "))
	}
	return m, reasons, nil
}

// rent is the dollars an hour of engines.
func (m *Market) rent(e fleets.Engines) float64 {
	if e.Count == 0 {
		return 0
	}
	usd, _ := fleets.Price(&m.Prices, e.Profile) // profiles of a market are known
	return float64(e.Count) * usd
}

// maxDraftKinds is how many kinds of draft servers are looked at.
const maxDraftKinds = 3

// keepDrafts leaves out draft servers that cost more for the same drafts than others: on a GPU all but the cheapest, and all
// beyond the cheapest kinds.
func (m *Market) keepDrafts(d *Demand) (reasons []string) {
	usd := func(p *vllmsim.Profile) float64 {
		return d.servers(p, 1, d.Output) * m.rent(fleets.Engines{Profile: p.Name, Count: 1})
	}
	slices.SortStableFunc(m.Drafts, func(a, b vllmsim.Profile) int { return cmp.Compare(usd(&a), usd(&b)) })
	gpus := map[string]bool{}
	var kept []vllmsim.Profile
	for _, p := range m.Drafts {
		if gpus[p.GPU] || len(kept) == maxDraftKinds {
			reasons = append(reasons, fmt.Sprintf("%s: drafts cost %.1f times what they cost on %s", p.Name, usd(&p)/usd(&kept[0]), kept[0].Name))
			continue
		}
		gpus[p.GPU] = true
		kept = append(kept, p)
	}
	m.Drafts = kept
	return reasons
}
