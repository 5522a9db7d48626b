package cache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
)

// FlightID names identical requests that may share one generation. Those of different classes do
// not: a request of priority low may wait for long where one of priority high may not. Those that are not
// streamed say nothing before the end, so that streams do not wait for them.
type FlightID struct {
	Key    Key
	Class  int8 // of priority
	Stream bool
}

// ErrBroken is why a request cannot go on with another's answer: what it has sent already is not
// how the new one begins.
var ErrBroken = errors.New("the answer that was followed broke off, and the new one is another")

// stage is how far a flight is.
type stage uint8

const (
	vacant stage = iota // nobody makes the answer: the next who asks does
	led                 // a request of this process makes it
	remote              // another replica makes it
	landed              // it is whole
	failed              // it failed, and so it does for all
)

const (
	// mostSeats bounds those who share a flight.
	mostSeats = 1024
	// mostVacated is how often the leaders of a flight may be lost before each goes by itself.
	mostVacated = 3
)

// Flight is one answer in the making, and those who want it.
type Flight struct {
	owner *Flights
	id    FlightID

	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil while nobody waits
	stage   stage
	attempt int    // counts beginnings
	text    []byte // of the answer so far: only appended to, so that parts of it may be handed out
	opaque  bool   // there is more than text: only the whole can be told
	entry   *Entry
	err     error
	failed  int           // attempts that failed
	vacated int           // leaders that were lost
	seats   int           // requests that still want the answer
	gone    chan struct{} // closed when nobody wants it any more
	dead    bool

	wanted    bool // another replica follows
	published int  // bytes of text that were published
	pieces    int  // in how many pieces
	muted     bool // nothing more is published: what has arrived is not known
	cancel    context.CancelCauseFunc
}

// Seat is one request's part in a flight. It is used by one goroutine, but for Depart.
type Seat struct {
	flight  *Flight
	attempt int    // that sent is of
	sent    []byte // what the request has of the answer's text

	departed bool // guarded by Flight.mu
}

// Lead is the task to make a flight's answer. It must be ended, by Land, Fail or Follow.
type Lead struct {
	Said []byte // text that an attempt before this one had come to, and that others may have told their clients; not to be changed

	flight *Flight
	over   bool
}

// Event is what a seat is to do next.
type Event uint8

// The events.
const (
	EventLead   Event = iota // make the answer
	EventText                // there is more text
	EventLanded              // the answer is whole
	EventFailed              // there is none; the error says why
	EventAlone               // go by yourself: it takes too long
)

// News is an event with what belongs to it.
type News struct {
	Event Event
	Lead  *Lead  // EventLead
	Text  []byte // EventText; not to be changed
	Entry *Entry // EventLanded; not to be changed
	Err   error  // EventFailed
}

// wake tells everybody who waits; f.mu is held.
func (f *Flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Next waits for what a seat is to do. patience, where it is not nil, ends a wait in which nothing has come yet.
// The error is the context's cause.
func (s *Seat) Next(ctx context.Context, patience <-chan time.Time) (News, error) {
	f := s.flight
	for {
		f.mu.Lock()
		if n, ok := s.look(); ok {
			f.mu.Unlock()
			return n, nil
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		if len(s.sent) > 0 {
			patience = nil
		}
		select {
		case <-changed:
		case <-patience:
			return s.alone(), nil
		case <-ctx.Done():
			return News{}, context.Cause(ctx)
		}
	}
}

// alone ends a wait that took too long, unless something has come at this very moment.
func (s *Seat) alone() News {
	f := s.flight
	f.mu.Lock()
	if f.stage != vacant {
		if n, ok := s.look(); ok {
			f.mu.Unlock()
			return n
		}
	}
	f.mu.Unlock()
	s.Depart()
	return News{Event: EventAlone}
}

// look is Next without waiting; f.mu is held.
func (s *Seat) look() (News, bool) {
	f := s.flight
	switch f.stage {
	case landed:
		return News{Event: EventLanded, Entry: f.entry}, true
	case failed:
		return News{Event: EventFailed, Err: f.err}, true
	case vacant:
		f.stage = led
		f.attempt++
		said := f.text
		f.text, f.opaque, f.published, f.pieces, f.muted = nil, false, 0, 0, false
		return News{Event: EventLead, Lead: &Lead{flight: f, Said: said[:wholeRunes(said):len(said)]}}, true
	}
	if !f.id.Stream || f.opaque {
		return News{}, false
	}
	if s.attempt != f.attempt {
		if !bytes.HasPrefix(f.text, s.sent[:min(len(s.sent), len(f.text))]) {
			return News{Event: EventFailed, Err: ErrBroken}, true
		}
		if len(f.text) < len(s.sent) {
			return News{}, false
		}
		s.attempt = f.attempt
	}
	end := len(s.sent) + wholeRunes(f.text[len(s.sent):])
	if end == len(s.sent) {
		return News{}, false
	}
	text := f.text[:end:end] // who appends to it does not write into ours
	more := text[len(s.sent):]
	s.sent = text
	return News{Event: EventText, Text: more}, true
}

// Sent is the text that the seat was given so far.
func (s *Seat) Sent() []byte { return s.sent }

// Depart gives the seat up: its client is gone, has its answer, or gets it otherwise. Where nobody else
// wants the answer, its generation is cancelled; else that goes on. It may be called again.
func (s *Seat) Depart() {
	f := s.flight
	f.owner.mu.Lock() // before the flight's, as everywhere
	defer f.owner.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.departed {
		return
	}
	s.departed = true
	f.seats--
	if f.owner.seats[f.id.Key.tenant]--; f.owner.seats[f.id.Key.tenant] == 0 {
		delete(f.owner.seats, f.id.Key.tenant)
	}
	if f.seats == 0 && (f.stage != led || !f.wanted) {
		f.owner.abandon(f)
	}
}

// Shared reports whether anybody else wants the answer.
func (s *Seat) Shared() bool {
	f := s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	others := f.seats
	if !s.departed {
		others--
	}
	return others > 0 || f.wanted
}

// Begin says that the answer is being made; cancel ends that. lease is the one that was got for it, nil without.
func (l *Lead) Begin(lease *Lease, cancel context.CancelCauseFunc) {
	f := l.flight
	f.mu.Lock()
	f.cancel, f.wanted = cancel, false
	if f.dead {
		cancel(context.Canceled)
	}
	f.mu.Unlock()
	if lease != nil {
		f.owner.hold(f, lease)
	}
}

// Append tells those who follow of more text.
func (l *Lead) Append(text []byte) {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrive(text)
}

// Opaque says that the answer is more than text, so that nothing more of it can be told before it is whole.
func (l *Lead) Opaque() {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opaque = true
}

// Land gives everybody the answer. keep stores it and calls then when that is done; nil is not to be stored.
func (l *Lead) Land(e *Entry, keep func(then func())) {
	f := l.flight
	l.over = true
	f.mu.Lock()
	f.stage, f.entry, f.cancel = landed, e, nil
	f.wake()
	f.mu.Unlock()
	if keep == nil {
		f.owner.end(f, e, false)
		return
	}
	keep(func() { f.owner.end(f, e, true) })
}

// Fail says that the answer could not be made. Once another of those who wait tries again, unless that is
// hopeless; the second time all share the error. After Land or Follow it does nothing.
func (l *Lead) Fail(err error, hopeless bool) {
	if l.over {
		return
	}
	l.over = true
	f := l.flight
	f.owner.end(f, nil, false) // before another leads under a lease of its own
	f.mu.Lock()
	f.cancel = nil
	f.failed++
	over := hopeless || f.failed > 1 || f.seats == 0
	if over {
		f.stage, f.err = failed, err
	} else {
		f.stage = vacant
	}
	f.wake()
	f.mu.Unlock()
	if over {
		f.owner.forget(f)
	}
}

// Follow lets another replica's answer be this flight's. It reports false where that cannot be: too many are
// followed already, or were lost. Then the answer is still to be made here.
func (l *Lead) Follow(lease *Lease) bool {
	l.over = l.flight.owner.follow(l.flight, lease)
	return l.over
}

// depend makes the flight another replica's to make. It reports which attempt that is, and false where too many
// leaders were lost.
func (f *Flight) depend() (attempt int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.vacated >= mostVacated {
		return 0, false
	}
	f.stage = remote
	return f.attempt, true
}

// depends reports whether another replica makes the answer, in that attempt still.
func (f *Flight) depends(attempt int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage == remote && f.attempt == attempt
}

// vacate says that the leader on another replica is lost: one of those who wait takes its place.
func (f *Flight) vacate(attempt int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attempt == attempt {
		f.release()
	}
}

// release is vacate for those who hold f.mu, whichever the attempt is.
func (f *Flight) release() {
	if f.stage == remote {
		f.stage = vacant
		f.vacated++
		f.wake()
	}
}

// arrive appends text; f.mu is held.
func (f *Flight) arrive(text []byte) {
	f.text = append(f.text, text...)
	f.wake()
}

// hear appends text from another replica, unless its attempt is over.
func (f *Flight) hear(attempt int, text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage == remote && f.attempt == attempt {
		f.arrive(text)
	}
}

// touchDown is the whole answer from another replica.
func (f *Flight) touchDown(attempt int, e *Entry) {
	f.mu.Lock()
	ours := f.stage == remote && f.attempt == attempt
	if ours {
		f.stage, f.entry = landed, e
		f.wake()
	}
	f.mu.Unlock()
	if ours {
		f.owner.forget(f)
	}
}
