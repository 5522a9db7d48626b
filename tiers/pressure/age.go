package pressure

import "time"

// Weight says how much a reading taken at time at still counts at now: 1 up to
// Fresh, falling linearly to 0 at Absent. From Absent on, and for the zero
// time, known is false. What weighs less than 1 is to be mixed with the pool's
// mean, because an old reading is no evidence that its backend is idle or full.
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

// Aged says what KV usage a reading still stands for at now: its own, mixed
// with mean, the pool's mean, by [Weight]. Where known is false, usage is mean
// and must not be used as a measurement.
//
// A mean that is not within 0..1 (nobody has a fresh reading) moves nothing.
func Aged(r Reading, mean float64, now time.Time, c Config) (usage float64, known bool) {
	weight, known := Weight(r.At, now, c)
	if known && !within(mean, 1) {
		return r.KVUsage, true
	}
	return r.KVUsage*weight + mean*(1-weight), known
}
