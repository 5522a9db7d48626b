package cache

import (
	"bytes"
	"context"
	"errors"
	"time"
	"unicode/utf8"

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

// Generation is one answer in progress, with its subscribers. All of it is guarded by [Generations.mu].
type Generation struct {
	owner *Generations
	id    GenerationID

	changed     world.Signal // set at the next change; nil while nobody waits
	stage       stage
	attempt     int    // number of attempts so far: a failed one is followed by one more
	text        []byte // of the answer so far: append-only, so that parts of it can be shared
	opaque      bool   // the answer is more than text: only the whole can be shared
	entry       *Entry
	err         error
	subscribers int                     // requests that still want the answer; with none it is over
	cancel      context.CancelCauseFunc // of its making
}

// change changes a generation. If there are news, it wakes those who wait; if no request wants the answer any more, it
// cancels its making. It does so without the lock, because both may resume another request.
func (f *Generation) change(do func(f *Generation) (news bool)) {
	var changed world.Signal
	var cancel context.CancelCauseFunc
	f.owner.mu.Lock()
	if do(f) {
		changed, f.changed = f.changed, nil
	}
	if f.subscribers == 0 {
		cancel, f.cancel = f.cancel, nil
		f.owner.forget(f)
	}
	f.owner.mu.Unlock()
	if changed != nil {
		changed.Set()
	}
	if cancel != nil {
		cancel(context.Canceled)
	}
}

// Subscriber is one request's part in a generation. Only one goroutine may use it, except for Depart.
type Subscriber struct {
	generation *Generation
	attempt    int    // attempt that sent belongs to
	sent       []byte // the text that the request has received

	departed bool // guarded by Generations.mu
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

// Next waits for the next event. If deadline is not zero, it ends a wait in which nothing has arrived yet.
// The error is the context's cause.
func (s *Subscriber) Next(ctx context.Context, deadline time.Time) (Event, error) {
	e, changed := s.poll()
	if e != nil {
		return *e, nil
	}
	w, waiting := s.generation.owner.world, ctx
	if len(s.sent) == 0 && !deadline.IsZero() {
		bounded, cancel := w.WithTimeout(ctx, deadline.Sub(w.Now()))
		defer cancel()
		waiting = bounded
	}
	for {
		late := changed.Wait(waiting)
		if ctx.Err() != nil && late != nil {
			return Event{}, context.Cause(ctx)
		}
		if e, changed = s.poll(); e != nil {
			return *e, nil
		}
		if late != nil {
			s.Depart()
			return Event{Kind: EventAlone}, nil
		}
	}
}

// poll returns the next event, or the signal to wait for.
func (s *Subscriber) poll() (e *Event, changed world.Signal) {
	f := s.generation
	for fresh := world.Signal(nil); ; fresh = f.owner.world.NewSignal() { // made without the lock
		f.owner.mu.Lock()
		if e = s.look(); e == nil && f.changed == nil {
			f.changed = fresh
		}
		changed = f.changed
		f.owner.mu.Unlock()
		if e != nil || changed != nil {
			return e, changed
		}
	}
}

// look returns the next event, nil if there is none yet; the owner's mu is held.
func (s *Subscriber) look() *Event {
	f := s.generation
	switch f.stage {
	case completed:
		return &Event{Kind: EventComplete, Entry: f.entry}
	case failed:
		return &Event{Kind: EventFailed, Err: f.err}
	case leaderless:
		f.stage = led
		f.attempt++
		said := f.text
		f.text, f.opaque = nil, false
		return &Event{Kind: EventLead, Leader: &Leader{generation: f, attempt: f.attempt, sentBefore: said[:wholeRunes(said):len(said)]}}
	}
	if !f.id.Stream || f.opaque {
		return nil
	}
	if s.attempt != f.attempt {
		if !bytes.HasPrefix(f.text, s.sent[:min(len(s.sent), len(f.text))]) {
			return &Event{Kind: EventFailed, Err: ErrBroken}
		}
		if len(f.text) < len(s.sent) {
			return nil
		}
		s.attempt = f.attempt
	}
	end := len(s.sent) + wholeRunes(f.text[len(s.sent):])
	if end == len(s.sent) {
		return nil
	}
	text := f.text[:end:end] // with a limited capacity, so that an append cannot overwrite it
	more := text[len(s.sent):]
	s.sent = text
	return &Event{Kind: EventText, Text: more}
}

// Sent is the text that the subscriber has received.
func (s *Subscriber) Sent() []byte { return s.sent }

// Depart removes the subscriber: its client has left, has its answer, or gets it in another way. If no other
// request wants the answer, its generation is cancelled; otherwise it continues. Depart may be called again.
func (s *Subscriber) Depart() {
	s.generation.change(func(f *Generation) bool {
		if s.departed {
			return false
		}
		s.departed = true
		f.subscribers--
		fs, tenant := f.owner, f.id.Key.tenant
		if fs.subscribers[tenant]--; fs.subscribers[tenant] == 0 {
			delete(fs.subscribers, tenant)
		}
		return false
	})
}

// Shared reports whether another request wants the answer.
func (s *Subscriber) Shared() bool {
	f := s.generation
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	others := f.subscribers
	if !s.departed {
		others--
	}
	return others > 0
}

// wholeRunes is the length of the text up to the last complete character.
func wholeRunes(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}
