package cache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

// GenerationID names identical requests that may share one generation. Those of different classes do
// not: a request of priority low may wait for long where one of priority high may not. Those that are not
// streamed say nothing before the end, so that streams do not wait for them.
type GenerationID struct {
	Key    Key
	Class  int8 // of priority
	Stream bool
}

// ErrBroken is why a request cannot go on with another's answer: what it has sent already is not
// how the new one begins.
var ErrBroken = errors.New("the answer that was followed broke off, and the new one is another")

// ErrFollows is why a generation is cancelled: another replica makes the answer, and nobody was told of this one.
var ErrFollows = errors.New("another replica makes the answer")

// stage is how far a generation is.
type stage uint8

const (
	leaderless   stage = iota // nobody makes the answer: the next who asks does
	ledHere                   // a request of this process makes it
	ledElsewhere              // another replica makes it
	completed                 // it is whole
	failed                    // it failed, and so it does for all
)

const (
	// maxSeats bounds those who share a generation.
	maxSubscribers = 1024
	// maxLostLeaders is how often the leaders of a generation may be lost before each goes by itself.
	maxLostLeaders = 3
)

// Generation is one answer in the making, and those who want it.
type Generation struct {
	owner *Generations
	id    GenerationID

	mu          sync.Mutex
	changed     world.Signal // given at the next change; nil while nobody waits
	later       later        // what is told when the lock is given back
	stage       stage
	attempt     int    // counts beginnings
	text        []byte // of the answer so far: only appended to, so that parts of it may be handed out
	opaque      bool   // there is more than text: only the whole can be told
	claimed     bool   // somebody was told of this attempt's answer, or is about to be: it is made here
	entry       *Entry
	err         error
	failed      int           // attempts that failed
	lostLeaders int           // leaders that were lost
	subscribers int           // requests that still want the answer
	gone        chan struct{} // closed when nobody wants it any more
	dead        bool

	wanted    bool // another replica follows
	published int  // bytes of text that were published
	pieces    int  // in how many pieces
	muted     bool // nothing more is published: what has arrived is not known
	cancel    context.CancelCauseFunc
}

// Subscriber is one request's part in a generation. It is used by one goroutine, but for Depart.
type Subscriber struct {
	generation *Generation
	attempt    int    // that sent is of
	sent       []byte // what the request has of the answer's text

	departed bool // guarded by Generation.mu
}

// EventKind is what a subscriber is to do next.
type EventKind uint8

// The events.
const (
	EventLead     EventKind = iota // make the answer
	EventText                      // there is more text
	EventComplete                  // the answer is whole
	EventFailed                    // there is none; the error says why
	EventAlone                     // go by yourself: it takes too long
)

// Event is an event with what belongs to it.
type Event struct {
	Kind   EventKind
	Leader *Leader // EventLead
	Text   []byte  // EventText; not to be changed
	Entry  *Entry  // EventComplete; not to be changed
	Err    error   // EventFailed
}

// later is what the world is told when no lock is held any more: another request may go on then.
type later struct {
	changed world.Signal // nil: nobody waits
	cancel  context.CancelCauseFunc
	why     error // of cancel; nil: nothing is cancelled
}

// tell tells it.
func (l later) tell() {
	if l.changed != nil {
		l.changed.Set()
	}
	if l.why != nil {
		l.cancel(l.why)
	}
}

// wake tells everybody who waits, as soon as f.mu, which is held, is given back.
func (f *Generation) wake() {
	if f.changed != nil {
		f.later.changed, f.changed = f.changed, nil
	}
}

// unlock ends what was done to a generation under its lock.
func (f *Generation) unlock() {
	due := f.later
	f.later = later{}
	f.mu.Unlock()
	due.tell()
}

// Next waits for what a subscriber is to do. The deadline, where it is not zero, ends a wait in which nothing has come yet.
// The error is the context's cause.
func (s *Subscriber) Next(ctx context.Context, deadline time.Time) (Event, error) {
	n, changed := s.poll()
	if n != nil {
		return *n, nil
	}
	w, waiting := s.generation.owner.o.World, ctx
	if len(s.sent) == 0 && !deadline.IsZero() {
		bounded, cancel := w.WithTimeout(ctx, deadline.Sub(w.Now()))
		defer cancel()
		waiting = bounded
	}
	for n == nil {
		switch err := changed.Wait(waiting); {
		case err == nil:
		case ctx.Err() != nil:
			return Event{}, context.Cause(ctx)
		default:
			return s.alone(), nil
		}
		n, changed = s.poll()
	}
	return *n, nil
}

// poll is what a subscriber is to do, or else the signal to wait for.
func (s *Subscriber) poll() (*Event, world.Signal) {
	n, changed := s.lookOrWait(nil)
	if n == nil && changed == nil {
		n, changed = s.lookOrWait(s.generation.owner.o.World.NewSignal()) // which is made while no lock is held
	}
	return n, changed
}

// lookOrWait is poll, where fresh is the signal if nobody waits yet.
func (s *Subscriber) lookOrWait(fresh world.Signal) (*Event, world.Signal) {
	f := s.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, ok := s.look(); ok {
		return &n, nil
	}
	if f.changed == nil {
		f.changed = fresh
	}
	return nil, f.changed
}

// alone ends a wait that took too long, unless something has come at this very moment.
func (s *Subscriber) alone() Event {
	f := s.generation
	f.mu.Lock()
	if f.stage != leaderless {
		if n, ok := s.look(); ok {
			f.mu.Unlock()
			return n
		}
	}
	f.mu.Unlock()
	s.Depart()
	return Event{Kind: EventAlone}
}

// look is Next without waiting; f.mu is held.
func (s *Subscriber) look() (Event, bool) {
	f := s.generation
	switch f.stage {
	case completed:
		return Event{Kind: EventComplete, Entry: f.entry}, true
	case failed:
		return Event{Kind: EventFailed, Err: f.err}, true
	case leaderless:
		f.stage = ledHere
		f.attempt++
		said := f.text
		f.text, f.opaque, f.claimed, f.published, f.pieces, f.muted = nil, false, false, 0, 0, false
		return Event{Kind: EventLead, Leader: &Leader{generation: f, attempt: f.attempt, said: said[:wholeRunes(said):len(said)]}}, true
	}
	if !f.id.Stream || f.opaque {
		return Event{}, false
	}
	if s.attempt != f.attempt {
		if !bytes.HasPrefix(f.text, s.sent[:min(len(s.sent), len(f.text))]) {
			return Event{Kind: EventFailed, Err: ErrBroken}, true
		}
		if len(f.text) < len(s.sent) {
			return Event{}, false
		}
		s.attempt = f.attempt
	}
	end := len(s.sent) + wholeRunes(f.text[len(s.sent):])
	if end == len(s.sent) {
		return Event{}, false
	}
	text := f.text[:end:end] // who appends to it does not write into ours
	more := text[len(s.sent):]
	s.sent = text
	return Event{Kind: EventText, Text: more}, true
}

// Sent is the text that the subscriber was given so far.
func (s *Subscriber) Sent() []byte { return s.sent }

// Depart gives the subscriber up: its client is gone, has its answer, or gets it otherwise. Where nobody else
// wants the answer, its generation is cancelled; else that goes on. It may be called again.
func (s *Subscriber) Depart() {
	f := s.generation
	f.owner.mu.Lock() // before the generation's, as everywhere
	f.mu.Lock()
	defer f.owner.unlock(f)
	if s.departed {
		return
	}
	s.departed = true
	f.subscribers--
	if f.owner.subscribers[f.id.Key.tenant]--; f.owner.subscribers[f.id.Key.tenant] == 0 {
		delete(f.owner.subscribers, f.id.Key.tenant)
	}
	if f.subscribers == 0 && (f.stage != ledHere || !f.wanted) {
		f.owner.abandon(f)
	}
}

// Shared reports whether anybody else wants the answer.
func (s *Subscriber) Shared() bool {
	f := s.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	others := f.subscribers
	if !s.departed {
		others--
	}
	return others > 0 || f.wanted
}

// depends reports whether another replica makes the answer, in that attempt still.
func (f *Generation) depends(attempt int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage == ledElsewhere && f.attempt == attempt
}

// loseLeader says that the leader on another replica is lost: one of those who wait takes its place.
func (f *Generation) loseLeader(attempt int) {
	f.mu.Lock()
	defer f.unlock()
	if f.attempt == attempt {
		f.release()
	}
}

// release is loseLeader for those who hold f.mu, whichever the attempt is.
func (f *Generation) release() {
	if f.stage == ledElsewhere {
		f.stage = leaderless
		f.lostLeaders++
		f.wake()
	}
}

// arrive appends text; f.mu is held.
func (f *Generation) arrive(text []byte) {
	f.text = append(f.text, text...)
	f.wake()
}

// hear appends text from another replica, unless its attempt is over.
func (f *Generation) hear(attempt int, text []byte) {
	f.mu.Lock()
	defer f.unlock()
	if f.stage == ledElsewhere && f.attempt == attempt {
		f.arrive(text)
	}
}

// completeElsewhere is the whole answer from another replica.
func (f *Generation) completeElsewhere(attempt int, e *Entry) {
	f.mu.Lock()
	ours := f.stage == ledElsewhere && f.attempt == attempt
	if ours {
		f.stage, f.entry = completed, e
		f.wake()
	}
	f.unlock()
	if ours {
		f.owner.forget(f)
	}
}
