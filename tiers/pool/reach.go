package pool

// Reach is whether a pool can take a request, as far as this replica knows.
type Reach int

// A pool has one of these.
const (
	Down      Reach = iota // every backend is down, drained or has an open breaker; or there is none
	Unreached              // of the others, none has answered yet, or none does any more
	Reached                // one of the others has answered
)

// Reach tells whether the pool can take a request. A reading counts as an answer, also one that
// another replica took, and so does whatever else the backend says over HTTP. A backend that says
// nothing more is reached for another [pressure.Config.Absent].
func (p *Pool) Reach() Reach { return p.reach(p.o.Open, false) }

// ReachSpare is Reach for requests that are of no use where they may wait ([Demand].Spare),
// as drafts are.
func (p *Pool) ReachSpare() Reach { return p.reach(p.o.Shut, true) }

func (p *Pool) reach(broken func(backend string) bool, spare bool) Reach {
	now, absent := p.o.Now(), p.o.Pressure().Absent
	best := Down
	for _, b := range *p.set.Load() {
		if broken(b.id) {
			continue
		}
		var out, reached bool
		p.locked(func() {
			out, reached = b.out(now) || spare && b.vitals.Suspect(), b.contact.Reached(now, absent)
		})
		switch {
		case out:
		case reached:
			return Reached
		default:
			best = Unreached
		}
	}
	return best
}
