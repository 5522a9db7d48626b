package pressure

import (
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/foregate/foregate/tiers/dialect"
)

// addRanks adds the values of each engine, if there are several. It runs after the checks of the three
// families. Engines that are not numbered 0, 1, 2 … are left out, because a request could not address them.
func (r *Reading) addRanks(fams families, names *dialect.Metrics) {
	if r.Engines < 2 || r.Engines > MaxRanks {
		return
	}
	ranks := make([]Rank, r.Engines)
	to := perRank{names.Rank, ranks}
	if !to.set(first(fams, names.Usage), func(k *Rank, v float64) { k.KVUsage = v }) ||
		!to.set(first(fams, names.Running), func(k *Rank, v float64) { k.Running += int(v) }) ||
		!to.set(first(fams, names.Waiting), func(k *Rank, v float64) { k.Waiting += int(v) }) {
		return
	}
	r.Ranks = ranks
}

// perRank sets one value of each rank.
type perRank struct {
	label string // of the rank's number
	ranks []Rank
}

// set passes each engine's value to put; it returns false if an engine is missing or not numbered.
func (p perRank) set(fam *dto.MetricFamily, put func(*Rank, float64)) bool {
	var seen uint64
	for _, m := range fam.GetMetric() {
		name, _ := label(m, p.label)
		n, err := strconv.Atoi(name)
		v, valueErr := gauge(fam, m)
		if err != nil || valueErr != nil || n < 0 || n >= len(p.ranks) {
			return false
		}
		seen |= 1 << n
		put(&p.ranks[n], v)
	}
	return seen == 1<<len(p.ranks)-1
}
