package choose

// Engine is one of several engines behind one URL (a data parallel rank).
type Engine struct {
	KVUsage  float64 // 0..1, by the last reading
	Requests float64 // running and waiting
}

// fuller is how much fuller than the mean a prompt's home engine may be.
const fuller = 0.2

// Rank is the engine that a prompt is to go to, so that its next turn finds it warm:
// its home by rendezvous hashing, as for backends. −1 leaves it to the server's own balance, where the home
// is crowded or full beyond the others, of which the server knows more.
func Rank(cfg Config, engines []Engine, key uint64) int {
	home, best := -1, uint64(0)
	requests, usage := 0.0, 0.0
	for i, e := range engines {
		if h := mix(key ^ mix(uint64(i))); home < 0 || h > best {
			home, best = i, h
		}
		requests += e.Requests
		usage += e.KVUsage
	}
	if home < 0 {
		return -1
	}
	n := float64(len(engines))
	e := engines[home]
	if e.Requests+1 > max(cfg.MaxLoadRatio, 1)*(requests/n+1) || e.KVUsage > usage/n+fuller {
		return -1
	}
	return home
}
