package pressure

import (
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// addRanks adds the values of each engine, if there are several. It runs after the checks of the three
// families. Engines that are not numbered 0, 1, 2 … are left out, because a request could not address them.
func (r *Reading) addRanks(fams families) {
	if r.Engines < 2 || r.Engines > MaxRanks {
		return
	}
	ranks := make([]Rank, r.Engines)
	usage := fams["vllm:kv_cache_usage_perc"]
	if usage == nil {
		usage = fams["vllm:gpu_cache_usage_perc"]
	}
	if !byRank(usage, ranks, func(k *Rank, v float64) { k.KVUsage = v }) ||
		!byRank(fams["vllm:num_requests_running"], ranks, func(k *Rank, v float64) { k.Running += int(v) }) ||
		!byRank(fams["vllm:num_requests_waiting"], ranks, func(k *Rank, v float64) { k.Waiting += int(v) }) {
		return
	}
	r.Ranks = ranks
}

// byRank passes each engine's value to set; it returns false if an engine is missing or not numbered.
func byRank(fam *dto.MetricFamily, ranks []Rank, set func(*Rank, float64)) bool {
	var seen uint64
	for _, m := range fam.GetMetric() {
		name, _ := label(m, "engine")
		n, err := strconv.Atoi(name)
		v, valueErr := gauge(fam, m)
		if err != nil || valueErr != nil || n < 0 || n >= len(ranks) {
			return false
		}
		seen |= 1 << n
		set(&ranks[n], v)
	}
	return seen == 1<<len(ranks)-1
}
