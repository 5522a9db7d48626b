package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Candidate is a fleet, and the parts of the gateway that are used with it.
type Candidate struct {
	Target     fleets.Engines
	Draft      fleets.Engines // none where Count is 0
	Acceptance float64        // of the drafts, that is assumed
	Rent       float64        // dollars an hour

	Scarce  bool // drafts only while the target is short of room (speculation.when)
	NoCache bool // cache.mode off
	NoFit   bool // route.policy round_robin: no routing by prefixes
}

// String names a candidate.
func (c Candidate) String() string {
	name := fmt.Sprintf("%d × %s", c.Target.Count, c.Target.Profile)
	if c.Draft.Count > 0 {
		name += fmt.Sprintf(" + %d × %s", c.Draft.Count, c.Draft.Profile)
	}
	for _, part := range []struct {
		is   bool
		text string
	}{{c.Scarce, ", drafts when scarce"}, {c.NoCache, ", no cache"}, {c.NoFit, ", no prefix routing"}} {
		if part.is {
			name += part.text
		}
	}
	return name
}

// Demand is what a load asks of a fleet, in means.
type Demand struct {
	PerSecond float64 // requests, without those that the cache answers
	Prompt    float64 // tokens that are computed, without shared prefixes
	Output    float64 // tokens
	Context   float64 // tokens of a prompt, shared ones too
	Draftable float64 // share of the requests whose prompts are short enough for drafts
	requests  []loadtest.Given
}

var (
	defaults   = settings.Defaults().Tiers
	maxDrafted = defaults.MaxPromptTokens         // the target answers longer prompts
	holdback   = float64(defaults.HoldbackTokens) // what a draft that is refused costs at least
)

// DemandOf sums a load up that comes growth times as fast.
func DemandOf(requests []loadtest.Given, growth float64) Demand {
	d := Demand{requests: requests}
	seen, n, draftable := map[int]bool{}, 0.0, 0.0
	prefixes := map[int]bool{}
	for _, g := range requests {
		if seen[g.Words] {
			continue
		}
		seen[g.Words] = true
		n++
		own := g.Prompt
		if prefixes[g.Prefix] {
			own -= g.Shared
		}
		prefixes[g.Prefix] = g.Shared > 0
		d.Prompt, d.Output, d.Context = d.Prompt+float64(own), d.Output+float64(g.Output), d.Context+float64(g.Prompt)
		if g.Prompt <= maxDrafted {
			draftable++
		}
	}
	seconds := requests[len(requests)-1].At.Seconds() / growth
	d.Prompt, d.Output, d.Context, d.Draftable, d.PerSecond = d.Prompt/n, d.Output/n, d.Context/n, draftable/n, n/seconds
	return d
}

// servers is how many servers of a kind are busy all of the time with so many requests a second that have answers of so many
// tokens, at least: at the largest batches that their memory holds.
func (d *Demand) servers(p *vllmsim.Profile, perSecond, output float64) float64 {
	batch := min(float64(p.MaxSeqs), float64(p.Blocks*vllmsim.BlockSize)/(d.Context+output))
	token := p.Base/max(1, batch) + p.PerSeq + p.PerKVToken*(d.Context+output/2)
	return perSecond * (d.Prompt*p.PerPrefillToken + output*token)
}

// hopeless tells why no number of servers of a kind holds an SLO as targets; "" where some may.
func (d *Demand) hopeless(p *vllmsim.Profile, slo *loadtest.SLO) string {
	var ttft, e2e []int // ms of each request alone
	for _, g := range d.requests {
		own := float64(g.Prompt - g.Shared)
		first := own*p.PerPrefillToken + p.Base*math.Ceil(own/float64(p.MaxBatchedTokens))
		step := p.Base + p.PerSeq + p.PerKVToken*float64(g.Prompt+g.Output/2)
		ttft, e2e = append(ttft, int(first*1e3)), append(e2e, int((first+float64(g.Output)*step)*1e3))
		if g.Prompt+g.Output > p.Blocks*vllmsim.BlockSize {
			return fmt.Sprintf("a request of %d tokens is larger than its KV memory", g.Prompt+g.Output)
		}
	}
	for what, of := range map[string]struct {
		ms     []int
		limits map[float64]time.Duration
	}{"ttft": {ttft, slo.TTFT}, "e2e": {e2e, slo.E2E}} {
		for share, limit := range of.limits {
			if alone := time.Duration(trace.Quantile(of.ms, share)) * time.Millisecond; alone > limit {
				return fmt.Sprintf("without any other load %s_p%.0f is %s, more than %s", what, 100*share, alone, limit)
			}
		}
	}
	return ""
}

// maxServers of one kind: what the lab has.
const maxServers = 64

// Alone are the fleets without drafts that may hold an SLO: of each kind from what it needs at least to twice and a half that, the
// cheapest first. Reasons tell which kinds are left out.
func (m *Market) Alone(d *Demand, slo *loadtest.SLO) (all []Candidate, reasons []string) {
	for i := range m.Targets {
		p := &m.Targets[i]
		least := int(math.Ceil(d.servers(p, d.PerSecond, d.Output)))
		reason := d.hopeless(p, slo)
		if reason == "" && least > maxServers {
			reason = fmt.Sprintf("%d servers are needed at least, more than the %d that the lab has", least, maxServers)
		}
		if reason != "" {
			reasons = append(reasons, p.Name+": "+reason)
			continue
		}
		for n := max(1, least); n+m.Away <= min(maxServers, least*5/2+1+m.Away); n += max(1, least/8) {
			c := Candidate{Target: fleets.Engines{Profile: p.Name, Count: n + m.Away}}
			c.Rent = m.rent(c.Target)
			all = append(all, c)
		}
	}
	byRent(all)
	return all, reasons
}

// WithDrafts are the fleets with drafts of an acceptance that may hold an SLO and cost less than a rent, the cheapest first.
func (m *Market) WithDrafts(d *Demand, slo *loadtest.SLO, acceptance, below float64) (all []Candidate) {
	drafted := d.PerSecond * d.Draftable
	for i := range m.Targets {
		target := &m.Targets[i]
		if d.hopeless(target, slo) != "" {
			continue
		}
		targets := int(math.Ceil(d.servers(target, d.PerSecond-drafted*acceptance, d.Output)))
		for t := max(1, targets) + m.Away; t <= maxServers && m.rent(fleets.Engines{Profile: target.Name, Count: t}) < below; t++ {
			for k := range m.Drafts {
				draft := &m.Drafts[k]
				least := int(math.Ceil(d.servers(draft, drafted, acceptance*d.Output+(1-acceptance)*holdback)))
				all = append(all, m.pairs(target.Name, t, fleets.Engines{Profile: draft.Name, Count: max(1, least) + m.Away}, acceptance, below)...)
			}
		}
	}
	byRent(all)
	return all
}

// maxMoreDrafts bounds how many more draft servers are tried than are needed at least.
const maxMoreDrafts = 2

// pairs are the fleets of so many targets with drafts, from a number of draft servers on.
func (m *Market) pairs(target string, t int, least fleets.Engines, acceptance, below float64) (all []Candidate) {
	for more := range maxMoreDrafts + 1 {
		c := Candidate{Target: fleets.Engines{Profile: target, Count: t}, Draft: least, Acceptance: acceptance}
		c.Draft.Count += more
		c.Rent = m.rent(c.Target) + m.rent(c.Draft)
		if c.Rent >= below || c.Draft.Count > maxServers {
			break
		}
		all = append(all, c)
		c.Scarce = true
		all = append(all, c)
	}
	return all
}

func byRent(all []Candidate) {
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Rent, b.Rent) })
}
