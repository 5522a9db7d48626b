package machine

import (
	"cmp"
	"slices"
	"time"
)

// SetOptions configure a [Set].
type SetOptions struct {
	Config func() Config  // live
	Draw   func() float64 // a random number in [0, 1), for open times
}

// Set holds the breakers of all backends of all pools of one replica in the lab: with the gateway's rules,
// and with times as arguments. It shares nothing with other replicas. A breaker whose open time is over is
// tested by probes while [Set.DueProbes] is called, and otherwise by one request. It is not safe for
// concurrent use.
type Set struct {
	o        SetOptions
	breakers map[Key]*Breaker
	sizes    map[string]int // number of backends by pool, if known
	probes   map[Key]int    // probed backends, with the number of successful probes in a row
}

// NewSet returns an empty set; breakers are made when their backends are first used.
func NewSet(o SetOptions) *Set {
	return &Set{o: o, breakers: map[Key]*Breaker{}, sizes: map[string]int{}, probes: map[Key]int{}}
}

// Permit allows one call to a backend.
type Permit struct {
	set     *Set
	breaker *Breaker
	call    Call
}

// Allow asks whether a request may go to the backend. If not, the error is an [*OpenError].
func (s *Set) Allow(pool, backend string, now time.Time) (*Permit, error) {
	p := &Permit{set: s, breaker: s.breaker(Key{pool, backend}, now)}
	v := p.breaker.Ask(&p.call, s.o.Config().OrDefaults(), now)
	allowed := v.Decision != Refuse
	if allowed {
		report, settled := p.call.Enter(now)
		allowed = settled || p.breaker.Entered(&p.call, report)
	}
	s.settle(p.breaker, now)
	if !allowed {
		return nil, p.breaker.Refusal(v)
	}
	return p, nil
}

// Report reports the outcome of the call. Only the first report counts.
func (p *Permit) Report(o Outcome, now time.Time) {
	if p.breaker == nil {
		return
	}
	p.breaker.Ended(&p.call, o, now)
	p.call.Tell(o, now)
	p.breaker.Free(&p.call)
	p.set.settle(p.breaker, now)
	p.breaker = nil
}

// DueProbes returns the backends that this replica must probe now, each once until [Set.Probed] was called.
// Call it every 250 ms, as the gateway does: for [StaleAfter] after a call no request tests a breaker.
func (s *Set) DueProbes(now time.Time) (due []Key) {
	for k, b := range s.breakers {
		b.Refresh(now)
		s.settle(b, now)
		if _, probed := s.probes[k]; !probed && b.Verdict(now).Probe == OwnProbe {
			due = append(due, k)
			s.probes[k] = 0
		}
	}
	slices.SortFunc(due, func(a, b Key) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend)) })
	return due
}

// Probed receives the result of a probe. again asks for another one (in the gateway 100 ms later).
func (s *Set) Probed(k Key, o Outcome, now time.Time) (again bool) {
	if b := s.breakers[k]; b != nil {
		var left Report
		if again, left = b.Probed(o, s.probes[k], s.o.Config().OrDefaults(), now); left != nil {
			left.Report(Neutral, now)
		}
		s.settle(b, now)
	}
	s.probes[k]++
	if !again {
		delete(s.probes, k)
	}
	return again
}

// Open reports whether the backend takes no request now. It changes nothing.
func (s *Set) Open(pool, backend string, now time.Time) bool {
	return s.Verdict(pool, backend, now).Decision == Refuse
}

// Shut is Open without max ejection, for a request that can use another pool.
func (s *Set) Shut(pool, backend string, now time.Time) bool {
	v := s.Verdict(pool, backend, now)
	return v.Decision == Refuse || v.Decision == Spare
}

// Verdict is the present verdict of the backend's breaker; that of a closed one if there is none.
func (s *Set) Verdict(pool, backend string, now time.Time) Verdict {
	if b := s.breakers[Key{pool, backend}]; b != nil {
		return b.Verdict(now)
	}
	return Verdict{}
}

// Ramp is the share of its turns that the backend may take, 0.1 to 1.
func (s *Set) Ramp(pool, backend string, now time.Time) float64 {
	b := s.breakers[Key{pool, backend}]
	if b == nil || b.Ramped().IsZero() {
		return 1
	}
	return Ramp(now.Sub(b.Ramped()))
}

// Retain sets the backends of a pool. Breakers of others are deleted.
func (s *Set) Retain(pool string, backends []string, now time.Time) {
	s.sizes[pool] = len(backends)
	for k := range s.breakers {
		if k.Pool == pool && !slices.Contains(backends, k.Backend) {
			delete(s.breakers, k)
		}
	}
	for _, backend := range backends {
		s.breaker(Key{pool, backend}, now)
	}
	s.eject(pool)
}

// breaker returns that of k, a new one if there is none.
func (s *Set) breaker(k Key, now time.Time) *Breaker {
	b := s.breakers[k]
	if b == nil {
		_, known := s.sizes[k.Pool]
		b = NewBreaker(k, Options{
			Config: s.o.Config().OrDefaults(), Draw: s.o.Draw, MayEject: !known,
			Local: func(cfg Config, v Version, now time.Time) Local { return NewWindow(cfg, v, now) },
		}, now)
		s.breakers[k] = b
	}
	return b
}

// settle must follow every change of a breaker.
func (s *Set) settle(b *Breaker, now time.Time) {
	if _, m := b.Settle(now); m.Eject {
		s.eject(b.Pool)
	}
}

// eject decides which backends of a pool may be kept out, if the pool's size is known.
func (s *Set) eject(pool string) {
	size, known := s.sizes[pool]
	if !known {
		return
	}
	var all []*Breaker
	for k, b := range s.breakers {
		if k.Pool == pool {
			all = append(all, b)
		}
	}
	Eject(all, size)
}
