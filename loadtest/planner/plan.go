// Package planner finds the cheapest fleets that hold an SLO for a trace of requests. Start at [Plan]. [Market.Alone] and
// [Market.WithDrafts] list fleets, without those that cannot hold by arithmetic; the others are run in the virtual lab.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Options are what is to be planned.
type Options struct {
	Trace           *trace.Trace
	SLO             loadtest.SLO
	Market          Market
	Assumed         []string  // sentences beside those of the trace
	LeftOut         []string  // reasons why profiles are not in it
	Acceptance      []float64 // that drafts may have, ascending; none: no drafts
	MaxDisagreement float64   // risk.max_disagreement
	Growth          float64   // how many times the trace's load is planned for
	Seeds           int       // runs of each fleet that holds
	Workers         int       // runs at a time
	Progress        func(text string)
}

// maxSimulated is how many requests of a trace are simulated.
const maxSimulated = 20_000

// Range is the mean over the seeds, and the lowest and the highest.
type Range struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Fleet is a candidate that was run.
type Fleet struct {
	Candidate  `json:"-"`
	Name       string  `json:"fleet"`
	Why        string  `json:"why,omitempty"` // of rivals
	USDPerHour float64 `json:"rent_usd_per_hour"`
	Assumed    float64 `json:"acceptance_assumed,omitempty"`
	Seeds      int     `json:"seeds"`
	Fails      string  `json:"fails,omitempty"` // the part of the SLO that does not hold; "": all hold

	PerMTok Range `json:"rent_usd_per_mtok"`
	Priced  Range `json:"token_usd_per_mtok"` // by the prices of the tokens that were computed, as the gateway's ledger counts
	TTFT50  Range `json:"ttft_p50_ms"`
	TTFT99  Range `json:"ttft_p99_ms"`
	E2E50   Range `json:"e2e_p50_ms"`
	E2E99   Range `json:"e2e_p99_ms"`
	Lost    Range `json:"lost"`    // requests
	Drafted Range `json:"drafted"` // share of the answers that drafts gave
	Bound   Range `json:"disagreement_bound"`

	rows  []loadtest.Row
	Spare float64 `json:"spare"` // share of the load that it would carry beyond; 0 is not known
}

// Answer is a plan.
type Answer struct {
	Summary     trace.Summary `json:"trace"`
	Simulated   string        `json:"simulated"`
	PerSecond   float64       `json:"engine_requests_per_s"`  // planned for, without those that the cache answers
	Away        int           `json:"servers_away,omitempty"` // of each pool, in all runs
	LeftOut     []string      `json:"left_out,omitempty"`
	Fleets      []Fleet       `json:"fleets"` // that hold the SLO, by rent
	Rivals      []Fleet       `json:"rivals,omitempty"`
	Notes       []string      `json:"notes,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"`
}

// planner is a plan under way.
type planner struct {
	Options
	lab    *lab
	demand Demand
	answer Answer

	mu    sync.Mutex
	done  []Fleet // all that were run
	runs  int
	began time.Time
}

// Plan finds the cheapest fleets that hold the SLO. If ctx ends before, the answer has what is known.
func Plan(ctx context.Context, o Options) (*Answer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	requests := o.Trace.Busiest(maxSimulated)
	p := &planner{Options: o, demand: DemandOf(requests, o.Growth), began: time.Now()}
	p.lab = &lab{market: &p.Market, slo: &p.SLO, requests: requests, growth: o.Growth, maxDisagreement: o.MaxDisagreement, evidence: map[float64]*evidence{}}
	p.answer.LeftOut = slices.Concat(o.LeftOut, p.Market.keepDrafts(&p.demand))
	if len(p.Market.Drafts) == 0 {
		p.Acceptance = nil
	}
	p.answer.Summary, p.answer.Simulated, p.answer.PerSecond, p.answer.Away = o.Trace.Summary(), p.simulated(), p.demand.PerSecond, o.Market.Away
	err := p.search(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		p.answer.Interrupted, err = true, nil
	}
	p.answer.Fleets = p.best()
	return &p.answer, err
}

func (o *Options) validate() error {
	if !(o.Growth > 0 && o.Growth <= 100) {
		return fmt.Errorf("--growth %g: want above 0, up to 100", o.Growth)
	}
	if !(o.MaxDisagreement >= 0.001 && o.MaxDisagreement <= 0.5) {
		return fmt.Errorf("--max-disagreement %g: want 0.001 to 0.5", o.MaxDisagreement)
	}
	if o.Market.Away < 0 || o.Market.Away > 8 {
		return fmt.Errorf("--spare %d: want 0 to 8 servers", o.Market.Away)
	}
	if o.Seeds < 1 || o.Seeds > 20 {
		return fmt.Errorf("--seeds %d: want 1 to 20", o.Seeds)
	}
	for _, a := range o.Acceptance {
		if !(a > 0 && a < 1) {
			return fmt.Errorf("--acceptance %g: want shares above 0 and below 1", a)
		}
	}
	return nil
}

// simulated tells which requests are simulated, and how exact that is.
func (p *planner) simulated() string {
	n, all := len(p.lab.requests), len(p.Trace.Requests)
	text := fmt.Sprintf("all %d requests", n)
	if n < all {
		text = fmt.Sprintf("the busiest %d of %d requests, %s", n, all, p.lab.requests[n-1].At.Round(time.Second))
	}
	if p.Growth != 1 {
		text += fmt.Sprintf(", at %g times their rate", p.Growth)
	}
	off := 196 * math.Sqrt(0.01*0.99/float64(n))
	return fmt.Sprintf("%s. A P99 of so many lies between P%.1f and P%.1f (95 %%).", text, 99-off, min(100, 99+off))
}

// search runs candidates: targets alone, then with drafts, then what the answer is held against.
func (p *planner) search(ctx context.Context) error {
	alone, reasons := p.Market.Alone(&p.demand, &p.SLO)
	p.answer.LeftOut = append(p.answer.LeftOut, reasons...)
	err := p.settle(ctx, alone, func(c *Candidate) bool {
		return slices.ContainsFunc(p.done, func(f Fleet) bool {
			return f.Fails == "" && (f.Target.Profile == c.Target.Profile && f.Rent <= c.Rent || c.Rent > f.Rent*dearest)
		})
	})
	if err != nil {
		return err
	}
	cheapest := p.cheapest(0)
	if cheapest == nil {
		return p.nothing(ctx, alone)
	}
	for _, a := range slices.Backward(p.Acceptance) { // where a high one does not pay, a lower one does not
		list := p.Market.WithDrafts(&p.demand, &p.SLO, a, cheapest.Rent)
		err := p.settle(ctx, list, func(c *Candidate) bool {
			f := p.cheapest(a)
			return f != nil && f.Rent <= c.Rent
		})
		if err != nil {
			return err
		}
		if p.cheapest(a) == nil {
			break
		}
	}
	p.answer.Notes = append(p.answer.Notes, p.pays(cheapest))
	if err := p.rivals(ctx); err != nil {
		return err
	}
	return p.spare(ctx)
}

// dearest is how much dearer than the cheapest kind another kind of target is looked at.
const dearest = 1.5

// cheapest is the cheapest fleet with drafts of an acceptance that holds; 0 is without drafts. nil is none.
func (p *planner) cheapest(acceptance float64) (best *Fleet) {
	for i := range p.done {
		if f := &p.done[i]; f.Fails == "" && f.Acceptance == acceptance && (best == nil || f.compare(best) < 0) {
			best = f
		}
	}
	return best
}

func (f *Fleet) compare(other *Fleet) int {
	return cmp.Or(cmp.Compare(f.Rent, other.Rent), cmp.Compare(f.Name, other.Name))
}

// best are the cheapest fleets that hold of each kind of target without drafts, and of each acceptance, by rent.
func (p *planner) best() (out []Fleet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	all := slices.DeleteFunc(slices.Clone(p.done), func(f Fleet) bool { return f.Fails != "" })
	slices.SortFunc(all, func(a, b Fleet) int { return a.compare(&b) })
	for _, f := range all {
		group := f.Target.Profile
		if f.Acceptance > 0 {
			group = fmt.Sprint(f.Acceptance)
		}
		if !seen[group] {
			out = append(out, f)
		}
		seen[group] = true
	}
	return out
}

// settle runs candidates with one seed, and the cheapest that hold with the other seeds, too. Where these fail, it goes on.
func (p *planner) settle(ctx context.Context, list []Candidate, needless func(*Candidate) bool) error {
	for {
		err := p.runAll(ctx, list, func(c *Candidate) bool {
			return needless(c) || slices.ContainsFunc(p.done, func(f Fleet) bool { return f.Candidate == *c })
		})
		if err != nil {
			return err
		}
		open := slices.DeleteFunc(p.best(), func(f Fleet) bool { return f.Seeds == p.Seeds })
		if len(open) == 0 {
			return nil
		}
		for _, f := range open {
			if err := p.confirm(ctx, &f); err != nil {
				return err
			}
			p.mu.Lock()
			i := slices.IndexFunc(p.done, func(of Fleet) bool { return of.Candidate == f.Candidate })
			p.done[i] = f
			p.progress(&f, 0)
			p.mu.Unlock()
		}
	}
}

// runAll runs candidates in their order, several at a time. Those that are needless when their turn comes are left out.
func (p *planner) runAll(ctx context.Context, list []Candidate, needless func(*Candidate) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := 0
	take := func() *Candidate {
		p.mu.Lock()
		defer p.mu.Unlock()
		for next < len(list) && ctx.Err() == nil {
			if c := &list[next]; !needless(c) {
				next++
				return c
			}
			next++
		}
		return nil
	}
	var all sync.WaitGroup
	for range max(1, p.Workers) {
		all.Go(func() {
			for c := take(); c != nil; c = take() {
				f := Fleet{Candidate: *c, Name: c.String(), USDPerHour: c.Rent, Assumed: c.Acceptance}
				if err := p.evaluate(ctx, &f, 1); err != nil {
					cancel(err)
					return
				}
				p.mu.Lock()
				p.done = append(p.done, f)
				p.progress(&f, len(list)-next)
				p.mu.Unlock()
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// progress tells what came of a candidate, and how long the rest of its kind may take. p.mu is held.
func (p *planner) progress(f *Fleet, left int) {
	p.runs++
	if p.Progress == nil {
		return
	}
	each := time.Since(p.began) / time.Duration(p.runs)
	verdict := "holds"
	if f.Fails != "" {
		verdict = "fails " + f.Fails
	}
	p.Progress(fmt.Sprintf("%s (%.2f $/h): %s; %d fleets run, up to %d to come in %s", f.label(), f.Rent, verdict, p.runs, left, (each * time.Duration(left)).Round(time.Second)))
}

// label names a fleet with the acceptance that is assumed.
func (f *Fleet) label() string {
	if f.Acceptance == 0 {
		return f.Name
	}
	return fmt.Sprintf("%s at acceptance %g", f.Name, f.Acceptance)
}

// evaluate runs a fleet with a seed, and takes its figures.
func (p *planner) evaluate(ctx context.Context, f *Fleet, seed uint64) error {
	row, v, err := p.lab.run(ctx, &f.Candidate, p.Growth, seed)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Seeds++; v.Failed != "" {
		f.Fails = v.Failed
		return nil
	}
	f.rows = append(f.rows, row)
	f.fill(f.rows)
	return nil
}

// confirm runs a fleet that was run with seed 1 with the other seeds.
func (p *planner) confirm(ctx context.Context, f *Fleet) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for seed := 2; seed <= p.Seeds; seed++ { // few: all at once
		all.Go(func() {
			if err := p.evaluate(ctx, f, uint64(seed)); err != nil { //nolint:gosec // from 2 to 20
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// fill takes the figures of runs.
func (f *Fleet) fill(rows []loadtest.Row) {
	of := func(value func(*loadtest.Row) float64) (r Range) {
		for i := range rows {
			v := value(&rows[i])
			if i == 0 {
				r.Low, r.High = v, v
			}
			r.Mean, r.Low, r.High = r.Mean+v/float64(len(rows)), min(r.Low, v), max(r.High, v)
		}
		return r
	}
	f.PerMTok = of(func(r *loadtest.Row) float64 { return r.RentPerMTok * f.Rent / r.Rent }) // those that are away are paid, too
	f.Priced = of(func(r *loadtest.Row) float64 { return r.PricedPerMTok })
	f.E2E50 = of(func(r *loadtest.Row) float64 { return r.E2E50 })
	f.TTFT50 = of(func(r *loadtest.Row) float64 { return r.TTFT50 })
	f.TTFT99 = of(func(r *loadtest.Row) float64 { return r.TTFT99 })
	f.E2E99 = of(func(r *loadtest.Row) float64 { return r.E2E99 })
	f.Lost = of(func(r *loadtest.Row) float64 { return float64(r.Errors + r.Shed) })
	f.Drafted = of(func(r *loadtest.Row) float64 { return r.Served })
	f.Bound = of(func(r *loadtest.Row) float64 { return r.Bound })
}

// spared is for how many of the cheapest fleets the spare is sought.
const spared = 3

// spare finds how much more load the cheapest fleets carry, with one seed.
func (p *planner) spare(ctx context.Context) error {
	best := p.best()
	for _, b := range best[:min(spared, len(best))] {
		highest, err := fleets.Highest(p.Growth*1.25, 1.1, func(load float64) (bool, error) {
			if load <= p.Growth {
				return true, nil // it was run
			}
			_, v, err := p.lab.run(ctx, &b.Candidate, load, 1)
			return err == nil && v.Failed == "", err
		})
		if err != nil {
			return err
		}
		for i := range p.done {
			if p.done[i].Name == b.Name && p.done[i].Acceptance == b.Acceptance {
				p.done[i].Spare = highest/p.Growth - 1
			}
		}
	}
	return nil
}

// rivals runs what the cheapest fleet is held against.
func (p *planner) rivals(ctx context.Context) error {
	best := p.best()[0]
	alone := Candidate{Target: best.Target}
	usd := p.Market.rent(fleets.Engines{Profile: best.Target.Profile, Count: 1})
	type rival struct {
		why string
		Candidate
	}
	var all []rival
	if best.Draft.Count > 0 {
		alone.Target.Count = int(best.Rent / usd)
		all = append(all, rival{"targets alone for the rent", alone})
		always := best.Candidate
		always.Scarce = !best.Scarce
		all = append(all, rival{"the same, with speculation.when=" + map[bool]string{true: "scarce", false: "always"}[always.Scarce], always})
	}
	if smaller := best.Candidate; smaller.Target.Count > 1+p.Market.Away {
		smaller.Target.Count--
		all = append(all, rival{"a server fewer", smaller})
	}
	if part := best.Candidate; p.answer.Summary.Repeats > 0 {
		part.NoCache = true
		all = append(all, rival{"without the cache", part})
	}
	if part := best.Candidate; p.answer.Summary.Shared > 0 {
		part.NoFit = true
		all = append(all, rival{"without routing by prefixes", part})
	}
	for _, r := range all {
		r.Rent = p.Market.rent(r.Target) + p.Market.rent(r.Draft)
		f := Fleet{Candidate: r.Candidate, Name: r.String(), USDPerHour: r.Rent, Assumed: r.Acceptance, Why: r.why}
		if err := p.evaluate(ctx, &f, 1); err != nil {
			return err
		}
		if f.Fails == "" {
			if err := p.confirm(ctx, &f); err != nil {
				return err
			}
		}
		p.answer.Rivals = append(p.answer.Rivals, f)
	}
	p.answer.Notes = append(p.answer.Notes, p.precision(&best))
	return nil
}

// bits are those of a precision's weights.
var bits = map[string]int{"bf16": 16, "fp8": 8, "awq": 4, "mxfp4": 4}

// precision tells what the same model in fewer bits costs.
func (p *planner) precision(best *Fleet) string {
	own, _ := vllmsim.ProfileByName(best.Target.Profile) // of the market
	for _, f := range p.best() {
		if k, _ := vllmsim.ProfileByName(f.Target.Profile); f.Acceptance == 0 && bits[k.Precision] < bits[own.Precision] {
			return fmt.Sprintf("In %s, the target alone costs %.2f $/h: %s.", k.Precision, f.Rent, f.Name)
		}
	}
	return fmt.Sprintf("No profile of %s with fewer bits than %s is among the fleets that hold the SLO.", own.Model, own.Precision)
}

// pays tells from which acceptance on drafts pay, and how many requests tell one's own.
func (p *planner) pays(alone *Fleet) string {
	if len(p.Acceptance) == 0 {
		return "Drafts were not looked at."
	}
	// So many audits tell a share within .05 (95 %); shadow begins with 20 a minute, and later audits one draft in twenty.
	const audits = 385
	n := audits / 20.0 * 60 * p.demand.PerSecond
	if later := audits / 0.05 / max(0.01, p.demand.Draftable); later < n {
		n = later
	}
	shadow := fmt.Sprintf("shadow for about %.0f requests to know yours.", math.Ceil(n/100)*100)
	for i, a := range p.Acceptance {
		if f := p.cheapest(a); f != nil {
			text := fmt.Sprintf("Drafts pay from acceptance %g on", a)
			if i > 0 {
				text += fmt.Sprintf(" (not at %g)", p.Acceptance[i-1])
			}
			return fmt.Sprintf("%s: %.2f instead of %.2f $/h; %s", text, f.Rent, alone.Rent, shadow)
		}
	}
	return fmt.Sprintf("Drafts do not pay up to acceptance %g: no fleet with them that costs less than %.2f $/h holds the SLO.", p.Acceptance[len(p.Acceptance)-1], alone.Rent)
}

// nothing tells why no fleet holds, and what the largest one would hold.
func (p *planner) nothing(ctx context.Context, tried []Candidate) error {
	if len(tried) == 0 {
		return fmt.Errorf("no fleet can hold this SLO, by arithmetic:\n  %s", strings.Join(p.answer.LeftOut, "\n  "))
	}
	parts := map[string]int{}
	for _, f := range p.done {
		parts[f.Fails]++
	}
	largest := tried[len(tried)-1]
	loose := p.lab.over(p.lab.requests, p.Growth)
	loose.slo = &loadtest.SLO{Lost: 1}
	row, _, err := loose.run(ctx, &largest, p.Growth, 1)
	if err != nil {
		return err
	}
	return fmt.Errorf("no fleet that was run holds this SLO (times that a part failed: %v); %s at %.2f $/h loses %d of %d requests and would hold ttft_p99=%.0fms,e2e_p99=%.0fms",
		parts, largest, largest.Rent, row.Errors+row.Shed, row.Requests, math.Ceil(row.TTFT99), math.Ceil(row.E2E99))
}
