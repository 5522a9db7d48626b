package pool

// Readiness says whether a pool can take requests, as far as this replica knows.
type Readiness int

// The values.
const (
	Down    Readiness = iota // every backend is down, drained or has an open breaker, or there is none
	Unknown                  // no usable backend has answered lately
	Ready                    // a usable backend has answered
)

// Readiness returns whether the pool can take a request. A reading counts as an answer, also one from another replica,
// and so does any HTTP answer. Without a new answer a backend counts for another [pressure.UnknownAfter].
func (p *Pool) Readiness() Readiness { return p.readiness(p.o.Open, false) }

// OptionalReadiness is Readiness for requests with [Demand].Optional, such as drafts.
func (p *Pool) OptionalReadiness() Readiness { return p.readiness(p.o.Shut, true) }

func (p *Pool) readiness(broken func(backend string) bool, spare bool) Readiness {
	now := p.o.Now()
	best := Down
	for _, b := range *p.set.Load() {
		if broken(b.id) {
			continue
		}
		var out, reached bool
		p.locked(func() {
			out, reached = b.out(now) || spare && b.health.IsSuspect(), b.reachability.IsReachable(now)
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
