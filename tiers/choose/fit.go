package choose

const (
	// Waits that differ by less than tieShare of the least plus tieSeconds count
	// as equal. One engine step takes 5–100 ms and learned rates
	// are noisy, so a smaller difference says nothing, and without the band the
	// luckiest backend would take every request of an idle pool.
	tieShare   = 0.10
	tieSeconds = 0.005
	// worthCached is the least cached prompt tokens for which a backend is preferred: 16 blocks, some tens of
	// milliseconds of prefill.
	worthCached = 256
	// asWarm is the tolerance within which two backends count as having equally much cached.
	asWarm = 8
)

const (
	// maxLoadRatio is how busy a backend may be, as a multiple of the pool's mean, while it still gets every request
	// that is warm there. Above it the expected wait decides.
	maxLoadRatio = 1.25
	// few is how many requests above the mean never count as crowded.
	few = 3
	// packed times maxLoadRatio is the load at which a backend gets no more requests while there are others, whatever
	// it has cached: 1.5 times its share.
	packed = 1.2
)

// fit is the default policy.
func (c *choice) fit() int {
	mean := c.mean()
	c.maxRequests = max(maxLoadRatio*packed*mean-1, mean+few) // before this one
	best := c.cheapest()
	if best < 0 {
		c.maxRequests = 0 // no number at all, or only such as make no sense
		best = c.cheapest()
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
	if k.requests() <= maxLoadRatio*(mean+few) {
		again *= 2
	}
	switch stay := wait(k, c.request) + c.request.WaitedSeconds; {
	case stay > wait(&c.cands[best], c.request)+again:
		return best
	case !c.isUsable(warm):
		return -1
	default:
		return warm
	}
}

// mean returns the mean number of requests of the usable candidates.
func (c *choice) mean() float64 {
	sum, n := 0.0, 0.0
	for i := range c.cands {
		if c.isUsable(i) {
			sum += c.cands[i].requests()
			n++
		}
	}
	return sum / max(n, 1)
}

// warmest returns the candidate with most of the prompt cached, −1 if none has enough. Of those with about as much it is
// the main one, so that all replicas use the same and other copies expire. With WaitForCapacity it may be one without
// capacity now.
func (c *choice) warmest() int {
	maximum := worthCached
	for i := range c.cands {
		if c.mayWait(i) {
			maximum = max(maximum, c.cands[i].Cached)
		}
	}
	warm := -1
	for i := range c.cands {
		k := &c.cands[i]
		if k.Cached < maximum-maximum/asWarm || k.Cached < worthCached || !c.mayWait(i) {
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
