package pool

// Readiness is whether a pool can take a request, as far as this replica knows.
type Readiness int

// A pool has one of these.
const (
	Down    Readiness = iota // every backend is down, drained or has an open breaker; or there is none
	Unknown                  // of the others, none has answered yet, or none does any more
	Ready                    // one of the others has answered
)

// Readiness tells whether the pool can take a request. A reading counts as an answer, also one that
// another replica took, and so does whatever else the backend says over HTTP. A backend that says
// nothing more is reached for another [pressure.Config.Absent].
func (p *Pool) Readiness() Readiness { return p.readiness(p.o.Open, false) }

// OptionalReadiness is Reach for requests that are of no use where they may wait ([Demand].Spare),
// as drafts are.
func (p *Pool) OptionalReadiness() Readiness { return p.readiness(p.o.Shut, true) }

func (p *Pool) readiness(broken func(backend string) bool, spare bool) Readiness {
	now, absent := p.o.Now(), p.o.Pressure().UnknownAfter
	best := Down
	for _, b := range *p.set.Load() {
		if broken(b.id) {
			continue
		}
		var out, reached bool
		p.locked(func() {
			out, reached = b.out(now) || spare && b.health.IsSuspect(), b.reachability.IsReachable(now, absent)
		})
		switch {
		case out:
		case reached:
			return Ready
		default:
			best = Unknown
		}
	}
	return best
}
