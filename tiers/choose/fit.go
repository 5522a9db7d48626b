package choose

const (
	// Waits that differ by less than tieShare of the least plus tieSeconds count
	// as equal. One engine step takes 5–100 ms and learned rates
	// are noisy, so a smaller difference says nothing, and without the band the
	// luckiest backend would take every request of an idle pool.
	tieShare   = 0.10
	tieSeconds = 0.005
	// worthCached is how many prompt tokens must be warm for a backend to be held on
	// to: 16 blocks, some tens of milliseconds of prefill.
	worthCached = 256
	// asWarm is what part less may be warm on a backend that counts as equally warm.
	asWarm = 8
)

const (
	// few requests more than the mean are no crowd, however idle the others are.
	few = 3
	// packed times Spill is where a backend gets nothing more while there are others,
	// whatever is warm there: with the default, at one and a half times its share.
	packed = 1.2
)

// fit is the default policy.
func (c *choice) fit() int {
	mean := c.mean()
	maxLoadRatio := max(c.cfg.MaxLoadRatio, 1)
	c.most = max(maxLoadRatio*packed*mean-1, mean+few) // before this one
	best := c.cheapest(wait, tieShare, tieSeconds)
	if best < 0 {
		c.most = 0 // no number at all, or only such as make no sense
		best = c.cheapest(wait, tieShare, tieSeconds)
	}
	warm := c.warmest()
	if warm < 0 || best < 0 || warm == best {
		return best
	}
	// What is computed twice is time that the next ones wait, too; so it counts twice,
	// or three times as long as it is not crowded there. So much a patient request waits
	// for room there, too.
	k := &c.cands[warm]
	again := max(float64(k.Cached-c.cands[best].Cached), 0) / k.PrefillRate
	if crowd(c.cfg, k, c.request) <= maxLoadRatio*(mean+few) {
		again *= 2
	}
	switch stay := wait(c.cfg, k, c.request) + c.request.WaitedSeconds; {
	case stay > wait(c.cfg, &c.cands[best], c.request)+again:
		return best
	case !c.isUsable(warm):
		return -1
	default:
		return warm
	}
}

// mean is the mean number of requests of those that may be used.
func (c *choice) mean() float64 {
	sum, n := 0.0, 0.0
	for i := range c.cands {
		if c.isUsable(i) {
			sum += crowd(c.cfg, &c.cands[i], c.request)
			n++
		}
	}
	return sum / max(n, 1)
}

// warmest is the candidate with most of the prompt in its cache, −1 when nobody has
// enough of it to matter. Of those that have about as much, it is the main one, so
// that all replicas come back to the same and the other copies fade. For a patient
// request it may be one that has no room now.
func (c *choice) warmest() int {
	most := worthCached
	for i := range c.cands {
		if c.mayWait(i) {
			most = max(most, c.cands[i].Cached)
		}
	}
	warm := -1
	for i := range c.cands {
		k := &c.cands[i]
		if k.Cached < most-most/asWarm || k.Cached < worthCached || !c.mayWait(i) {
			continue
		}
		if was := warm; was < 0 || k.Main && !c.cands[was].Main || k.Main == c.cands[was].Main && k.Home > c.cands[was].Home {
			warm = i
		}
	}
	return warm
}

// mayWait reports whether candidate i may be used, or waited for.
func (c *choice) mayWait(i int) bool {
	return c.isUsable(i) || c.request.WaitForCapacity && c.cands[i].fitFor(c.request) >= full && !c.skipsStarting(i) && !c.isCrowded(i)
}
