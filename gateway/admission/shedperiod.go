package admission

import "time"

const (
	// assumedPeriod is the assumed maximum duration of a period without capacity, before the end of one was
	// observed.
	assumedPeriod = 5 * time.Second
	// maxUnobserved is how long after the last refusal the end of a period counts as not observed.
	maxUnobserved = 5 * time.Second
)

// shedPeriod is a period in which a class of a route found no capacity at the pool: it begins with a refusal
// and ends when a later request is admitted. The zero value is no period so far.
type shedPeriod struct {
	began, last time.Time     // first and last refusal; began is zero while there is capacity
	typical     time.Duration // typical duration; 0 is unknown
}

// refuse records a refusal.
func (s *shedPeriod) refuse(now time.Time) {
	if s.began.IsZero() || now.Sub(s.last) > stateLifetime+s.typical {
		s.began = now // or the old period ended unobserved
	}
	s.last = now
}

// admit records the admission of a request that arrived at came.
func (s *shedPeriod) admit(came time.Time) {
	if s.began.IsZero() || came.Before(s.began) {
		return
	}
	lasted := came.Sub(s.began)
	if unseen := came.Sub(s.last); unseen > maxUnobserved {
		lasted -= unseen - maxUnobserved/2
	}
	s.began = time.Time{}
	if s.last.After(came) { // refused since then: the next period
		s.began = s.last
	}
	// The mean of this period and the typical one, both weighted by their length: a refusal is more likely in
	// a long one.
	if sum := (lasted + s.typical).Seconds(); sum > 0 {
		l, u := lasted.Seconds(), s.typical.Seconds()
		s.typical = time.Duration((l*l + u*u) / sum * float64(time.Second))
	}
}

// remaining is the expected rest of the period after a refusal; 0 is unknown. On average half of the typical
// duration is left. The same value is used throughout, because durations vary more than the elapsed time
// tells. guess is the pool's own estimate, from the rate at which its requests free memory; 0 is none. It
// ignores requests that arrive meanwhile, so it is used only until the end of a period was observed.
func (s *shedPeriod) remaining(guess time.Duration) time.Duration {
	lasted := s.last.Sub(s.began)
	if s.typical == 0 {
		return max(min(guess, assumedPeriod+lasted), lasted/2)
	}
	return max(s.typical/2, lasted/4) // a period longer than usual is likely to continue
}
