package pressure

import "time"

// Aged says what KV usage a reading still stands for at now. Up to Fresh it
// counts as it is. From there to Absent it moves linearly to mean, the pool's
// mean, because an old reading is no evidence that its backend is idle or full.
// From Absent on, and for a reading that never was, known is false and usage
// must not be used as a measurement; it is mean then.
//
// A mean that is not within 0..1 (nobody has a fresh reading) moves nothing.
func Aged(r Reading, mean float64, now time.Time, c Config) (usage float64, known bool) {
	c = c.OrDefaults()
	if r.At.IsZero() {
		return mean, false
	}
	age := now.Sub(r.At)
	switch {
	case age <= c.Fresh:
		return r.KVUsage, true
	case age >= c.Absent:
		return mean, false
	case !(mean >= 0 && mean <= 1):
		return r.KVUsage, true
	}
	gone := float64(age-c.Fresh) / float64(c.Absent-c.Fresh)
	return r.KVUsage*(1-gone) + mean*gone, true
}
