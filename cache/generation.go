package cache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

// GenerationID identifies identical requests that may share one generation. Requests of different classes do
// not share: one of priority low may wait longer than one of priority high. Streamed and whole answers do not
// share, because a whole answer arrives only at the end.
type GenerationID struct {
	Key    Key
	Class  int8 // of priority
	Stream bool
}

// ErrBroken means that a request cannot continue with another attempt's answer, because the text it has sent
// is not the beginning of the new answer.
var ErrBroken = errors.New("the answer that was followed broke off, and the new one is another")

// stage is the state of a generation.
type stage uint8

const (
	leaderless stage = iota // nobody makes the answer: the next subscriber to ask leads
	led                     // one of the requests makes it
	completed               // the answer is complete
	failed                  // it failed for all subscribers
)

// maxSubscribers bounds the subscribers of a generation.
const maxSubscribers = 1024

// Generation is one answer in progress, with its subscribers.
type Generation struct {
	owner *Generations
	id    GenerationID

	mu          sync.Mutex
	changed     world.Signal // set at the next change; nil while nobody waits
	later       later        // signals to send after the lock is released
	stage       stage
	attempt     int    // number of attempts so far
	text        []byte // of the answer so far: append-only, so that parts of it can be shared
	opaque      bool   // the answer is more than text: only the whole can be shared
	entry       *Entry
	err         error
	failed      int  // failed attempts
	subscribers int  // requests that still want the answer
	dead        bool // no request wants it any more
	cancel      context.CancelCauseFunc
}

// Subscriber is one request's part in a generation. Only one goroutine may use it, except for Depart.
type Subscriber struct {
	generation *Generation
	attempt    int    // attempt that sent belongs to
	sent       []byte // the text that the request has received

	departed bool // guarded by Generation.mu
}

// EventKind says what a subscriber must do next.
type EventKind uint8

// The events.
const (
	EventLead     EventKind = iota // make the answer
	EventText                      // there is more text
	EventComplete                  // the answer is complete
	EventFailed                    // there is no answer; the error says why
	EventAlone                     // generate alone: the wait is too long
)

// Event is an event with its data.
type Event struct {
	Kind   EventKind
	Leader *Leader // EventLead
	Text   []byte  // EventText; read-only
	Entry  *Entry  // EventComplete; read-only
	Err    error   // EventFailed
}

// later holds signals that are sent after all locks are released, because they may resume another request.
type later struct {
	changed world.Signal // nil: nobody waits
	cancel  context.CancelCauseFunc
	why     error // of cancel; nil: nothing is cancelled
}

// tell sends the signals.
func (l later) tell() {
	if l.changed != nil {
		l.changed.Set()
	}
	if l.why != nil {
		l.cancel(l.why)
	}
}

// wake signals all waiting subscribers as soon as f.mu, which is held, is released.
func (f *Generation) wake() {
	if f.changed != nil {
		f.later.changed, f.changed = f.changed, nil
	}
}

// unlock releases f.mu and sends the pending signals.
func (f *Generation) unlock() {
	due := f.later
	f.later = later{}
	f.mu.Unlock()
	due.tell()
}

// Next waits for the next event. If deadline is not zero, it ends a wait in which nothing has arrived yet.
// The error is the context's cause.
func (s *Subscriber) Next(ctx context.Context, deadline time.Time) (Event, error) {
	n, changed := s.poll()
	if n != nil {
		return *n, nil
	}
	w, waiting := s.generation.owner.world, ctx
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

// poll returns the next event, or the signal to wait for.
func (s *Subscriber) poll() (*Event, world.Signal) {
	n, changed := s.lookOrWait(nil)
	if n == nil && changed == nil {
		n, changed = s.lookOrWait(s.generation.owner.world.NewSignal()) // made without the lock
	}
	return n, changed
}

// lookOrWait is poll with a new signal for the case that nobody waits yet.
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

// alone ends a wait that took too long, unless an event has arrived just now.
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
		f.stage = led
		f.attempt++
		said := f.text
		f.text, f.opaque = nil, false
		return Event{Kind: EventLead, Leader: &Leader{generation: f, attempt: f.attempt, sentBefore: said[:wholeRunes(said):len(said)]}}, true
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
	text := f.text[:end:end] // with a limited capacity, so that an append cannot overwrite it
	more := text[len(s.sent):]
	s.sent = text
	return Event{Kind: EventText, Text: more}, true
}

// Sent is the text that the subscriber has received.
func (s *Subscriber) Sent() []byte { return s.sent }

// Depart removes the subscriber: its client has left, has its answer, or gets it in another way. If no other
// request wants the answer, its generation is cancelled; otherwise it continues. Depart may be called again.
func (s *Subscriber) Depart() {
	f := s.generation
	f.owner.mu.Lock() // locked before the generation's mutex, as everywhere
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
	if f.subscribers == 0 {
		f.owner.abandon(f)
	}
}

// Shared reports whether another request wants the answer.
func (s *Subscriber) Shared() bool {
	f := s.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	others := f.subscribers
	if !s.departed {
		others--
	}
	return others > 0
}

// arrive appends text; f.mu is held.
func (f *Generation) arrive(text []byte) {
	f.text = append(f.text, text...)
	f.wake()
}
