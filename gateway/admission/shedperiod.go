package admission

import "time"

const (
	// assumedPeriod is how long a time without room is taken to last, at most, before one was
	// seen to end.
	assumedPeriod = 5 * time.Second
	// maxUnobserved is how long after a refusal nobody came, so that the end was not seen.
	maxUnobserved = 5 * time.Second
)

// shedPeriod is a time in which a class of a route found no room at the pool: it begins with
// a refusal and ends when one came that was let in. The zero value is none so far.
type shedPeriod struct {
	began, last time.Time     // its first refusal and the latest; began is zero while there is room
	typical     time.Duration // how long such times last; 0 is not known yet
}

// refuse notes a refusal.
func (a *shedPeriod) refuse(now time.Time) {
	if a.began.IsZero() || now.Sub(a.last) > stateLifetime+a.typical {
		a.began = now // or it ended unseen
	}
	a.last = now
}

// admit notes that one was let in that came at a time, now or before.
func (a *shedPeriod) admit(came time.Time) {
	if a.began.IsZero() || came.Before(a.began) {
		return
	}
	lasted := came.Sub(a.began)
	if unseen := came.Sub(a.last); unseen > maxUnobserved {
		lasted -= unseen - maxUnobserved/2
	}
	a.began = time.Time{}
	if a.last.After(came) { // refused since: the next one
		a.began = a.last
	}
	// The mean of it and what was usual, each weighed by its length: a refusal is likelier
	// to be in a long one.
	if sum := (lasted + a.typical).Seconds(); sum > 0 {
		l, u := lasted.Seconds(), a.typical.Seconds()
		a.typical = time.Duration((l*l + u*u) / sum * float64(time.Second))
	}
}

// remaining is how long it is expected to last still, after a refusal; 0 is not known. Half of what
// is usual is what is left on average. It is told throughout, because the times differ more
// than what has passed says. guess is the pool's own word, by the rate at which its requests free memory; 0 is none. It knows
// nothing of who comes meanwhile, so it counts only before an end was seen.
func (a *shedPeriod) remaining(guess time.Duration) time.Duration {
	lasted := a.last.Sub(a.began)
	if a.typical == 0 {
		return max(min(guess, assumedPeriod+lasted), lasted/2)
	}
	return max(a.typical/2, lasted/4) // what has lasted longer than usual is likely to go on
}
