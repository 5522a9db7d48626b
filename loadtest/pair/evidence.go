package pair

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
)

// audit is a draft with what the target says of it.
type audit struct {
	question int
	score    float64 // the gateway's plain score, nats
	features accept.Features
	good     bool
}

// entriesOf are the entries of full-range audits in a log.
func entriesOf(audits []audit) (entries []risk.LogEntry) {
	for _, a := range audits {
		entries = append(entries, risk.LogEntry{Audit: risk.Audit{Score: a.score, Decision: risk.Decision{Floor: -risk.Unreachable}}, Label: risk.LabelOf(!a.good)})
	}
	return entries
}

// Evidence is what one label says of all drafts, and what the gateway's own functions make of it.
type Evidence struct {
	Label   string   `json:"label"`
	Why     string   `json:"why,omitempty"` // why there is none, or less
	Audits  int      `json:"audits"`        // drafts with this label
	Good    int      `json:"good"`          // of these, drafts that the target stands by
	Areas   []Area   `json:"areas,omitempty"`
	Points  []Point  `json:"points,omitempty"`
	Replays []Replay `json:"replays,omitempty"`
	Kinds   []Kind   `json:"kinds,omitempty"`
}

// Area is how well a score tells drafts that the target stands by from others.
type Area struct {
	Score string  `json:"score"`
	AUROC float64 `json:"auroc"`
	Error float64 `json:"standard_error"`
}

// Point is what the audits tell of one ε, as GET /admin/risk/frontier does. Shares are of all drafts.
type Point struct {
	MaxDisagreement float64    `json:"max_disagreement"`
	Certified       float64    `json:"certified"`   // served by the threshold that these audits certify
	Expected        risk.Range `json:"expected"`    // served once there are audits enough
	MoreAudits      *float64   `json:"more_audits"` // until then; null: never
}

// Replay is mode risk with these drafts in some random orders, each audited until a threshold is certified; it serves
// the rest.
type Replay struct {
	MaxDisagreement float64 `json:"max_disagreement"`
	Orders          int     `json:"orders"`
	Certified       int     `json:"certified"` // orders in which there was a certificate
	Audits          int     `json:"audits"`    // until then, the median; the scores that place the grid are not audits
	Requests        int     `json:"requests"`  // until then, the median, by the share that is drafted in the background
	Drafts          int     `json:"drafts"`    // after it, of all orders
	Served          int     `json:"served"`    // of these
	Bad             int     `json:"bad"`       // of the served ones
	Exceeded        int     `json:"exceeded"`  // orders in which more than ε of the served ones were bad
}

// Kind is one kind of question.
type Kind struct {
	Name   string `json:"name"`
	Audits int    `json:"audits"`
	Good   int    `json:"good"`
}

// The rates that are compared, and those that the run through the gateway may promise.
var (
	comparedRates = []float64{.05, .1, .2}
	promisedRates = []float64{.05, .1, .2, .3, .5}
)

const replayOrders = 40

// ruleFor is the gateway's rule at ε, by the defaults of its settings.
func ruleFor(rate float64) risk.Rule {
	return risk.Rule{MaxDisagreement: rate, ErrorProbability: .05, LeaseAudits: 4000, DriftRunLength: plan.DriftRunLength}
}

// evidenceOf is what a label says; why is told where there are no audits.
func evidenceOf(label, why string, audits []audit, list []question) Evidence {
	if len(audits) == 0 {
		return Evidence{Label: label, Why: why}
	}
	e := Evidence{Label: label, Audits: len(audits)}
	by := map[string]*Kind{}
	for _, a := range audits {
		name := list[a.question].kind
		k := by[name]
		if k == nil {
			k = &Kind{Name: name}
			by[name] = k
		}
		if k.Audits++; a.good {
			k.Good++
			e.Good++
		}
	}
	for _, k := range by {
		e.Kinds = append(e.Kinds, *k)
	}
	slices.SortFunc(e.Kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(float64(b.Good)/float64(b.Audits), float64(a.Good)/float64(a.Audits)), cmp.Compare(a.Name, b.Name))
	})
	if e.Good == 0 || e.Good == len(audits) {
		e.Why = joined(e.Why, fmt.Sprintf("all %d drafts have the same label, so no score tells them apart", len(audits)))
	} else {
		e.areas(audits)
	}
	if len(audits) <= risk.GridScores {
		e.Why = joined(e.Why, fmt.Sprintf("%d drafts are too few for thresholds, which %d scores place", len(audits), risk.GridScores))
		return e
	}
	e.points(audits)
	for _, rate := range comparedRates {
		e.Replays = append(e.Replays, replay(rate, audits))
	}
	return e
}

// areas measures each score: the plain one, its parts, and one that is fitted to other drafts than it is tried on.
func (e *Evidence) areas(audits []audit) {
	good := make([]bool, len(audits))
	samples := make([]refit.Sample, len(audits))
	for i, a := range audits {
		good[i] = a.good
		samples[i] = refit.Sample{Features: a.features, Score: a.score, Good: a.good, Greedy: true}
	}
	add := func(name string, of func(*audit) float64) {
		scores := make([]float64, len(audits))
		for i := range audits {
			scores[i] = of(&audits[i])
		}
		a := refit.AUROC(scores, good)
		e.Areas = append(e.Areas, Area{name, a.Value, a.Error})
	}
	add(scorePlain, func(a *audit) float64 { return a.score })
	for i, name := range accept.FeatureNames {
		add(name, func(a *audit) float64 { return a.features[i] })
	}
	fitted, err := refit.FitScore(samples)
	if err != nil {
		e.Why = joined(e.Why, "no fitted score: "+err.Error())
		return
	}
	e.Areas = append(e.Areas, Area{scoreFitted, fitted.After.Value, fitted.After.Error})
}

// The scores beside the features.
const scorePlain, scoreFitted = "plain score", "fitted score, cross-validated"

// points are what the frontier tells: the first scores place the grid, the other drafts are its audits.
func (e *Evidence) points(audits []audit) {
	var first []float64
	for _, a := range audits[:risk.GridScores] {
		first = append(first, a.score)
	}
	k := risk.KeyState{State: risk.State{Grid: risk.GridOf(first)}, Rule: ruleFor(.1)}
	f := risk.FrontierOf(&k, entriesOf(audits[risk.GridScores:]), 0, risk.Economics{})
	for i := range f.Points {
		p := &f.Points[i]
		if !f.Known || !slices.Contains(comparedRates, p.MaxDisagreement) {
			continue
		}
		point := Point{MaxDisagreement: p.MaxDisagreement, Expected: p.Share}
		if p.Low > 0 {
			point.Certified = f.Thresholds[p.Low-1].Share.Estimate
		}
		point.MoreAudits = p.MoreAudits
		e.Points = append(e.Points, point)
	}
}

// replay lets the gateway's own state of evidence see the drafts in random orders.
func replay(rate float64, audits []audit) Replay {
	r := Replay{MaxDisagreement: rate, Orders: replayOrders}
	var drafts, asked []float64
	dice := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same orders in each run
	for range r.Orders {
		order := dice.Perm(len(audits))
		s, rule, n := &risk.State{}, ruleFor(rate), 0
		for ; n < len(order) && !s.View(rule).Serves(); n++ {
			a, now := &audits[order[n]], time.Unix(int64(n+1), 0)
			d := s.View(rule).Decide(risk.Key{}, risk.Sampling{Rate: 1, FullRange: 1}, 0)
			if ticket := strconv.Itoa(n); s.Open(rule, &risk.Audit{Decision: d, Score: a.score, Ticket: ticket}, now) == risk.Opened {
				s.Close(rule, ticket, !a.good)
			}
		}
		v := s.View(rule)
		if !v.Serves() {
			continue
		}
		r.Certified++
		drafts, asked = append(drafts, float64(n)), append(asked, float64(s.Outcomes))
		served, bad := 0, 0
		for _, i := range order[n:] {
			if r.Drafts++; audits[i].score >= v.Threshold {
				if served++; !audits[i].good {
					bad++
				}
			}
		}
		if r.Served, r.Bad = r.Served+served, r.Bad+bad; float64(bad) > rate*float64(served) {
			r.Exceeded++
		}
	}
	r.Audits, r.Requests = int(median(asked)), int(median(drafts)/plan.ColdStartShare)
	return r
}

// promised is the smallest ε for which audits certify a threshold when they are imported; false if there is none.
func promised(audits []audit) (float64, bool) {
	past := entriesOf(audits)
	for _, rate := range promisedRates {
		var s risk.State
		s.ApplyImport(ruleFor(rate), risk.PlanImport(ruleFor(rate), nil, past), time.Unix(1, 0))
		if s.View(ruleFor(rate)).Serves() {
			return rate, true
		}
	}
	return promisedRates[1], false
}

// joined are two reasons as one.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// Proportion is a share of a count with its interval of 95 % (Wilson 1927).
type Proportion struct {
	Count int     `json:"count"`
	Of    int     `json:"of"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func proportion(count, of int) Proportion {
	if of == 0 {
		return Proportion{High: 1}
	}
	const z = 1.96
	n, p := float64(of), float64(count)/float64(of)
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Proportion{count, of, max((middle-half)/(1+z*z/n), 0), min((middle+half)/(1+z*z/n), 1)}
}

// share is the estimate.
func (p Proportion) share() float64 { return float64(p.Count) / float64(max(p.Of, 1)) }

// text is the share with its interval, in percent.
func (p Proportion) text() string {
	if p.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% (%.1f … %.1f), %d of %d", 100*p.share(), 100*p.Low, 100*p.High, p.Count, p.Of)
}
