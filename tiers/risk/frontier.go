package risk

import (
	"math"
	"slices"
)

// OfferedRates are the values of ε that a [Frontier] compares.
var OfferedRates = [...]float64{.01, .02, .03, .05, .08, .10, .15, .20, .30}

// Economics is what is known of the requests of one key.
type Economics struct {
	Label  string  // what counts as disagreement (risk.label)
	PerDay float64 // requests at all replicas; 0: unknown
	Priced bool    // the prices of the route's tokens are known
	// Saved returns what is saved a day, against the target alone, if a threshold serves a share of the drafts: USD, and
	// answer tokens of the target. serves is false without a threshold.
	Saved func(share float64, serves bool) (usd, tokens float64)
}

// Range is an estimate with the interval around it.
type Range struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
}

// Frontier says what each ε would give for one kind of request: which thresholds could be certified, how many drafts they
// would serve, and what that saves. As JSON it is one of GET /admin/risk/frontier; null means not known.
//
// Its ranges hold at once with the error probability in force, at every look, and so for any ε that is chosen after looking
// (docs/science.md, "Choosing ε").
type Frontier struct {
	Key
	Label string `json:"label"`

	MaxDisagreement  float64 `json:"max_disagreement"` // in force
	Setting          string  `json:"setting"`          // that changes it
	ErrorProbability float64 `json:"error_probability"`

	Known     bool    `json:"known"` // false: too few audits; all ranges are 0 … 1
	Audits    int     `json:"audits"`
	Lost      int     `json:"lost"` // of these, without an outcome; they count as bad and as good, whichever is worse
	Bad       int     `json:"bad"`
	FullRange int     `json:"full_range"`    // of the audits, of drafts with any score
	Needed    float64 `json:"audits_needed"` // about how many certify a first threshold for the ε in force, if none is bad

	RequestsPerDay *float64            `json:"requests_per_day"` // at all replicas; null: none were seen
	Priced         bool                `json:"priced"`           // the prices of the route's tokens are known
	Points         []FrontierPoint     `json:"points"`           // by ε, ascending: [OfferedRates], and the ε in force
	Thresholds     []ThresholdEvidence `json:"thresholds"`       // from the strictest
}

// Frontiers are those of the kinds of request in use.
type Frontiers struct {
	Frontiers []Frontier `json:"frontiers"`
	Omitted   int        `json:"omitted"` // kinds of request that are left out, because there are too many
}

// ThresholdEvidence is what audits show of one threshold.
type ThresholdEvidence struct {
	Threshold float64 `json:"threshold_nats"` // λ_j
	Share     Range   `json:"share"`          // of the drafts that it would serve
	Risk      Range   `json:"disagreement"`   // [L, U]; the estimate is Bad/(Audits−Lost)
	Audits    int     `json:"-"`              // with a score of λ_j or more and a floor of λ_j or less
	Bad       int     `json:"-"`              // of these
	Lost      int     `json:"-"`              // of these
	above     int     // full-range audits with such a score
}

// FrontierPoint is what one ε would give. An index is that of a threshold; 0 is none: no draft is served.
type FrontierPoint struct {
	MaxDisagreement float64  `json:"max_disagreement"` // ε
	InForce         bool     `json:"in_force"`
	Certified       bool     `json:"certified"`    // the audits so far certify a threshold for it
	Share           Range    `json:"share"`        // of drafts that would be served
	Risk            Range    `json:"disagreement"` // at threshold Estimate; at the strictest if that is 0
	MoreAudits      *float64 `json:"more_audits"`  // about how many more certify threshold Estimate: 0 if the samples do; null: none is expected
	Seconds         *float64 `json:"more_seconds"` // until then, at the present rate of audits

	USD    *Range `json:"usd_saved_per_day"`    // against the target alone, audits included; negative if drafts cost more
	Tokens *Range `json:"tokens_saved_per_day"` // of answers that drafts write in the place of the target

	Low      int `json:"-"` // loosest threshold that the samples certify
	Estimate int `json:"-"` // loosest threshold that half a lease of audits is expected to certify
	High     int `json:"-"` // loosest threshold that is not refuted
}

// FrontierOf computes the frontier of a key from all its audits by its grid since that was placed, or since the last drift
// alarm. perMinute is their rate, 0 if it is unknown. With fewer outcomes than [minOutcomes] its ranges are 0 … 1 and it is
// not Known.
func FrontierOf(k *KeyState, audits []LogEntry, perMinute float64, e Economics) Frontier {
	grid, r := k.State.Grid, k.Rule
	f := Frontier{
		Key: k.Key, Label: e.Label, MaxDisagreement: r.MaxDisagreement, Setting: "risk.max_disagreement", ErrorProbability: r.ErrorProbability,
		Audits: len(audits), Priced: e.Priced, Thresholds: make([]ThresholdEvidence, len(grid)),
	}
	if IsLow(k.Key.TrafficClass) {
		f.Setting = "risk.max_disagreement_low"
	}
	if e.PerDay > 0 {
		f.RequestsPerDay = &e.PerDay
	}
	for i := range audits {
		f.count(grid, &audits[i])
	}
	f.Known = f.Audits-f.Lost >= minOutcomes && len(grid) > 0
	for j := range f.Thresholds {
		f.Thresholds[j].Threshold = grid[j]
		f.estimate(j + 1)
	}
	f.Needed = math.Ceil(allGoodFactor * RequiredAudits(0, r.MaxDisagreement, r.ErrorProbability/(2*gridSize)) / f.fraction(lookTo(0)))
	offered := append(slices.Clone(OfferedRates[:]), r.MaxDisagreement)
	slices.Sort(offered)
	for _, eps := range slices.Compact(offered) {
		p := f.point(eps, r)
		p.InForce, p.Certified = eps == r.MaxDisagreement, p.Low > 0
		if p.MoreAudits != nil && perMinute > 0 {
			p.Seconds = new(60 * *p.MoreAudits / perMinute)
		}
		if f.Known && e.PerDay > 0 {
			p.save(&e)
		}
		f.Points = append(f.Points, p)
	}
	return f
}

// save sets what is saved a day.
func (p *FrontierPoint) save(e *Economics) {
	var usd, tokens [3]float64
	for i, at := range [...]struct {
		share float64
		index int
	}{{p.Share.Low, p.Low}, {p.Share.Estimate, p.Estimate}, {p.Share.High, p.High}} {
		usd[i], tokens[i] = e.Saved(at.share, at.index > 0)
	}
	p.Tokens = rangeOf(tokens)
	if e.Priced {
		p.USD = rangeOf(usd)
	}
}

// rangeOf returns the range of three values, of which the second is the estimate.
func rangeOf(v [3]float64) *Range {
	return &Range{Low: slices.Min(v[:]), Estimate: v[1], High: slices.Max(v[:])}
}

// allGoodFactor is by how much more audits than [RequiredAudits] are needed if none is bad.
const allGoodFactor = 1.35

// count adds one audit.
func (f *Frontier) count(g Grid, e *LogEntry) {
	lost, bad, full := 0, 0, 0
	switch e.Label {
	case Lost:
		lost = 1
	case Bad:
		bad = 1
	}
	if e.IsFullRange() {
		full = 1
	}
	f.Lost, f.Bad, f.FullRange = f.Lost+lost, f.Bad+bad, f.FullRange+full
	for j := len(g) - 1; j >= 0 && e.Score >= g[j]; j-- {
		t := &f.Thresholds[j]
		t.above += full
		if e.Floor <= g[j] {
			t.Audits, t.Lost, t.Bad = t.Audits+1, t.Lost+lost, t.Bad+bad
		}
	}
}

// estimate sets the estimates of threshold j, and their ranges, each at its part of δ; ranges that say nothing while the
// frontier is not Known. The scores that placed the grid count for the share as full-range audits do.
func (f *Frontier) estimate(j int) {
	t, delta := &f.Thresholds[j-1], f.ErrorProbability
	t.Risk = Range{0, share(t.Bad, t.Audits-t.Lost), 1}
	t.Share = Range{0, (float64(t.above) + GridScores*AcceptanceShare(j)) / float64(f.FullRange+GridScores), 1}
	if !f.Known {
		return
	}
	t.Risk.Low, t.Risk.High = lowerBound(t.Audits, t.Bad, delta/(4*gridSize)), upperBound(t.Audits, t.Bad+t.Lost, delta/(2*gridSize))
	t.Share.Low, t.Share.High = shareInterval(f.FullRange, t.above, delta/(4*gridSize))
	for _, r := range []*Range{&t.Risk, &t.Share} {
		r.Estimate = max(r.Low, min(r.Estimate, r.High))
	}
}

// fraction returns the share of audits that count for index j. Too few audits are not believed.
func (f *Frontier) fraction(j int) float64 {
	if !f.Known || j < 1 || j > len(f.Thresholds) || f.Thresholds[j-1].Audits == 0 {
		return min(AcceptanceShare(max(j, 1))/AcceptanceShare(lookTo(0)), 1)
	}
	return share(f.Thresholds[j-1].Audits, f.Audits)
}

// point computes what one ε would give.
func (f *Frontier) point(eps float64, r Rule) FrontierPoint {
	p := FrontierPoint{MaxDisagreement: eps, Share: Range{High: 1}, Risk: Range{High: 1}}
	if !f.Known {
		return p
	}
	for j := range f.Thresholds {
		t := &f.Thresholds[j]
		if t.Risk.High <= eps {
			p.Low = j + 1
		}
		if t.Risk.Low <= eps {
			p.High = j + 1
		}
		// One more good and one more bad audit than there were: few audits do not look better than they are.
		if risk := float64(t.Bad+1) / float64(t.Audits-t.Lost+2); RequiredAudits(risk, eps, r.ErrorProbability/(2*gridSize)) <= float64(r.LeaseAudits)/2 {
			p.Estimate = j + 1
		}
	}
	p.Estimate = max(p.Low, min(p.Estimate, p.High))
	p.Share = Range{f.share(p.Low).Low, f.share(p.Estimate).Estimate, f.share(p.High).High}
	t := &f.Thresholds[max(p.Estimate, 1)-1]
	p.Risk = t.Risk
	switch {
	case p.Estimate == 0:
	case p.Estimate <= p.Low:
		p.MoreAudits = new(0.0)
	default:
		more := RequiredAudits(p.Risk.Estimate, eps, r.ErrorProbability/(2*gridSize)) - float64(t.Audits-t.Lost)
		if more = math.Ceil(max(more, 1) / f.fraction(p.Estimate)); !math.IsInf(more, 0) {
			p.MoreAudits = &more
		}
	}
	return p
}

// share returns the share of drafts that index j serves.
func (f *Frontier) share(j int) Range {
	if j < 1 {
		return Range{}
	}
	return f.Thresholds[j-1].Share
}

// shareInterval is where the probability of a success is, by n trials of which k were successes, at every moment with
// probability 1 − delta. For a probability p the ratio
//
//	M(p) = ∫ q^k·(1−q)^(n−k) dBeta(½,½)(q) / (p^k·(1−p)^(n−k)) = B(k+½, n−k+½) / (π·p^k·(1−p)^(n−k))
//
// is a martingale with mean 1 if p is the truth, so by Ville's inequality M(p) ever reaches 1/delta with probability delta
// (Robbins 1970). The interval holds the p with M(p) < 1/delta. 0 and 1 where n is 0.
func shareInterval(n, k int, delta float64) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	yes, no := float64(k), float64(n-k)
	top := logGamma(yes+.5) + logGamma(no+.5) - logGamma(yes+no+1) - math.Log(math.Pi)
	need := math.Log(1 / delta)
	stands := func(p float64) bool { return top-yes*math.Log(p)-no*math.Log1p(-p) < need }
	seen := yes / (yes + no)
	return edge(seen, 0, stands), edge(seen, 1, stands)
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
