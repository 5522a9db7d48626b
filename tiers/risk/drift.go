package risk

import "math"

// rhos are the sizes of drift that the e-CUSUM looks for: risks of ε times that.
var rhos = [...]float64{1.5, 2, 3}

// Drift watches the audits of served drafts for a risk that has grown above ε. For each ρ in
// {1.5, 2, 3}
//
//	M_ρ ← max(M_ρ, 1) · (bad: ρ; good: (1−ρε)/(1−ε))
//
// (where ρε is above 0.99, which is no probability to bet on, it is 0.99 in both),
// which has mean max(M_ρ, 1) at most while the risk is ε or less, so that between false alarms
// at 3A lie A audits or more on average, even at a risk of just ε (e-CUSUM: Shin, Ramdas and
// Rinaldo 2024). It holds ln M_ρ; the zero value has seen nothing.
type Drift [len(rhos)]float64

// Add takes the outcome of one audit.
func (d *Drift) Add(bad bool, eps float64) {
	for i, rho := range rhos {
		r := math.Min(rho*eps, .99)
		step := math.Log(r / eps)
		if !bad {
			step = math.Log1p(-r) - math.Log1p(-eps)
		}
		d[i] = math.Max(d[i], 0) + step
	}
}

// Level is how far the watch has come on its way to the alarm, on the scale of logarithms: 1 is
// the alarm for an average run of so many audits between false ones.
func (d *Drift) Level(run float64) float64 {
	top := 0.0
	for _, m := range d {
		top = math.Max(top, m)
	}
	return top / math.Log(float64(len(rhos))*run)
}

// warnLevel is the level from which on more is audited, so that a drift is found sooner.
const warnLevel = .35
