package pressure

import "time"

// Weight is how much a reading taken at time at counts at now: 1 up to FreshFor, falling linearly to 0 at
// UnknownAfter. After that, and for the zero time, known is false. A reading with a weight below 1 must be
// mixed with the pool's mean, because an old reading does not show that its backend is idle or full.
func Weight(at, now time.Time, c Config) (weight float64, known bool) {
	c = c.OrDefaults()
	age := now.Sub(at)
	switch {
	case at.IsZero():
		return 0, false
	case age <= c.FreshFor:
		return 1, true
	case age >= c.UnknownAfter:
		return 0, false
	}
	return float64(c.UnknownAfter-age) / float64(c.UnknownAfter-c.FreshFor), true
}

// Aged is the estimated KV usage at now from a reading: its own, mixed with mean, the pool's mean, by
// [Weight]. If known is false, usage is mean and must not be used as a measurement. A mean outside 0..1
// (there is no fresh reading) is ignored.
func Aged(r Reading, mean float64, now time.Time, c Config) (usage float64, known bool) {
	weight, known := Weight(r.At, now, c)
	if known && !within(mean, 1) {
		return r.KVUsage, true
	}
	return r.KVUsage*weight + mean*(1-weight), known
}
