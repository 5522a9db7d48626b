package virtual

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

// answers are the answers that the replicas keep together: what Redis would hold. A question to it takes a
// hop there, and one back where there is nothing. Left out are the copies that a replica keeps for itself,
// purges, and what Redis has no memory for.
type answers struct {
	lab   *lab
	by    map[cache.Key]*cache.Entry
	drawn uint64
}

var _ pipeline.Store = (*answers)(nil)

func newAnswers(l *lab) *answers { return &answers{lab: l, by: map[cache.Key]*cache.Entry{}} }

// Epochs implements [pipeline.Store].
func (a *answers) Epochs(string, string) (cache.Epochs, bool) { return cache.Epochs{}, true }

// Local implements [pipeline.Store].
func (a *answers) Local(cache.Key) (*cache.Entry, bool) { return nil, false }

// Count implements [pipeline.Store].
func (a *answers) Count(string, string, cache.Result, *cache.Entry) {}

// Look implements [pipeline.Store].
func (a *answers) Look(ctx context.Context, key cache.Key, _ *cache.Lease) (*cache.Entry, cache.Found) {
	_ = a.lab.clock.Sleep(ctx, hop)
	if e := a.by[key]; e != nil {
		return e, cache.FoundHit
	}
	_ = a.lab.clock.Sleep(ctx, hop)
	return nil, cache.FoundNone
}

// Put implements [pipeline.Store]: an answer is kept for as long as ttl says, less up to a tenth by chance.
func (a *answers) Put(key cache.Key, e *cache.Entry, ttl time.Duration, then func()) {
	a.drawn++
	ttl = time.Duration(float64(ttl) * (0.9 + 0.1*engines.Unit(a.lab.seed, 2<<32, a.drawn)))
	a.by[key] = e
	a.lab.clock.After(ttl, func() {
		if a.by[key] == e { // not one that came later
			delete(a.by, key)
		}
	})
	if then != nil {
		then()
	}
}

// flights join identical requests of all replicas. What is told in another replica than the one that
// makes the answer takes two hops, by way of Redis.
type flights struct {
	lab *lab
	by  map[cache.FlightID]*flight
}

func newFlights(l *lab) *flights { return &flights{lab: l, by: map[cache.FlightID]*flight{}} }

// flight is one answer that is made for several.
type flight struct {
	flights *flights
	id      cache.FlightID
	seats   []*seat
	maker   *replica // that makes the answer, once somebody leads
	failed  bool     // one try has
	text    []byte
	opaque  bool
	end     *pipeline.Event // how it ended; nil while it has not
	cancel  context.CancelCauseFunc
}

// replicaFlights are the flights as a replica joins them.
type replicaFlights struct {
	*flights
	replica *replica
}

var _ pipeline.Generations = replicaFlights{}

// Join implements [pipeline.Generations].
func (r replicaFlights) Join(id cache.FlightID) pipeline.Subscriber {
	f := r.by[id]
	if f == nil {
		f = &flight{flights: r.flights, id: id}
		r.by[id] = f
	}
	s := &seat{flight: f, replica: r.replica, leads: f.maker == nil}
	if s.leads {
		f.maker = r.replica
	}
	f.seats = append(f.seats, s)
	s.knows(len(f.text))
	return s
}

// seat is one request's part in a flight. It leads, or follows what is made.
type seat struct {
	*flight
	replica *replica
	leads   bool // it is its turn to make the answer
	known   int  // bytes of the text that its replica has heard of
	sent    int  // of these, given
	heard   *pipeline.Event
	waiter  eventloop.Waiter
	left    bool
	pending bool // news are on their way
}

// Next implements [pipeline.Subscriber].
func (s *seat) Next(ctx context.Context, deadline time.Time) (pipeline.Event, error) {
	clock := s.flights.lab.clock
	late := false
	var timer *eventloop.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		switch {
		case s.leads:
			s.leads = false
			return pipeline.Event{Kind: cache.EventLead, Leader: leader{s.flight}}, nil
		case s.known > s.sent && !s.opaque && s.id.Stream:
			from := s.sent
			s.sent = s.known
			return pipeline.Event{Kind: cache.EventText, Text: s.text[from:s.sent:s.sent]}, nil
		case s.heard != nil:
			return *s.heard, nil
		case late && s.sent == 0:
			s.Depart()
			return pipeline.Event{Kind: cache.EventAlone}, nil
		}
		if timer == nil && s.sent == 0 {
			timer = clock.Timer(deadline.Sub(clock.Now()), func() { late = true; s.waiter.Wake(clock) })
		}
		if err := s.waiter.Wait(ctx, clock); err != nil {
			return pipeline.Event{}, err
		}
	}
}

// knows has the seat's replica know so much of the text, and the end if there is one.
func (s *seat) knows(text int) {
	s.known, s.heard, s.pending = text, s.end, false
	s.waiter.Wake(s.flights.lab.clock)
}

// tell has the replicas of all seats hear what there is.
func (f *flight) tell() {
	for _, s := range f.seats {
		switch {
		case s.pending:
		case s.replica == f.maker:
			s.knows(len(f.text))
		default:
			s.pending = true
			f.flights.lab.clock.After(2*hop, func() { s.knows(len(f.text)) })
		}
	}
}

// Sent implements [pipeline.Subscriber].
func (s *seat) Sent() []byte { return s.text[:s.sent:s.sent] }

// Shared implements [pipeline.Subscriber].
func (s *seat) Shared() bool { return len(s.seats) > 1 }

// Depart implements [pipeline.Subscriber].
func (s *seat) Depart() {
	if s.left {
		return
	}
	s.left = true
	f := s.flight
	f.seats = slices.DeleteFunc(f.seats, func(o *seat) bool { return o == s })
	if len(f.seats) > 0 || f.end != nil {
		return
	}
	f.drop()
	if f.cancel != nil {
		f.cancel(context.Canceled)
	}
}

// drop lets the next request of its kind begin anew.
func (f *flight) drop() {
	if f.flights.by[f.id] == f {
		delete(f.flights.by, f.id)
	}
}

// over tells all how the flight ended.
func (f *flight) over(e pipeline.Event) {
	f.end = &e
	f.drop()
	f.tell()
}

// leader is the task to make a flight's answer.
type leader struct{ *flight }

var _ pipeline.Leader = leader{}

// Said implements [pipeline.Leader].
func (l leader) Said() []byte { return l.text[:len(l.text):len(l.text)] }

// Lease implements [pipeline.Leader]: there is one leader among all replicas.
func (l leader) Lease() *cache.Lease { return nil }

// Follow implements [pipeline.Leader].
func (l leader) Follow() bool { return false }

// Follows implements [pipeline.Leader].
func (l leader) Follows() bool { return false }

// Claim implements [pipeline.Leader].
func (l leader) Claim() bool { return true }

// Begin implements [pipeline.Leader].
func (l leader) Begin(cancel context.CancelCauseFunc) {
	if l.cancel = cancel; len(l.seats) == 0 {
		cancel(context.Canceled)
	}
}

// Append implements [pipeline.Leader].
func (l leader) Append(text []byte) {
	if l.text = append(l.text, text...); len(l.seats) > 1 {
		l.tell()
	}
}

// Opaque implements [pipeline.Leader].
func (l leader) Opaque() { l.opaque = true }

// Complete implements [pipeline.Leader].
func (l leader) Complete(e *cache.Entry, keep func(then func())) {
	if keep != nil {
		keep(nil)
	}
	l.over(pipeline.Event{Kind: cache.EventLanded, Entry: e})
}

// Fail implements [pipeline.Leader].
func (l leader) Fail(err error, hopeless bool) {
	if hopeless || l.failed || len(l.seats) < 2 || errors.Is(err, context.Canceled) {
		l.over(pipeline.Event{Kind: cache.EventFailed, Err: err})
		return
	}
	l.failed = true
	next := l.seats[1] // the first is the leader that failed
	l.maker, next.leads = next.replica, true
	next.waiter.Wake(l.flights.lab.clock)
}
