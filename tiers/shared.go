package tiers

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/world"
)

// generationID identifies identical requests that may share one generation. Requests of different classes do
// not share: one of priority low may wait longer than one of priority high. Streamed and whole answers do not
// share, because a whole answer arrives only at the end.
type generationID struct {
	Key    cache.Key
	Class  int8 // of priority
	Stream bool
}

// ErrBroken means that a request cannot continue with another attempt's answer, because the text it has sent
// is not the beginning of the new answer.
var ErrBroken = errors.New("the answer that was followed broke off, and the new one is another")

// progress is the state of a generation.
type progress uint8

const (
	leaderless progress = iota // nobody makes the answer: the next subscriber to ask leads
	led                        // one of the requests makes it
	completed                  // the answer is complete
	failed                     // it failed for all subscribers
)

// sharedGeneration is one answer in progress, with its subscribers. All of it is guarded by [Generations.mu].
type sharedGeneration struct {
	owner *Generations
	id    generationID

	changed     world.Signal // set at the next change; nil while nobody waits
	stage       progress
	attempt     int    // number of attempts so far: a failed one is followed by one more
	text        []byte // of the answer so far: append-only, so that parts of it can be shared
	opaque      bool   // the answer is more than text: only the whole can be shared
	entry       *cache.Entry
	err         error
	subscribers int                     // requests that still want the answer; with none it is over
	cancel      context.CancelCauseFunc // of its making
}

// change changes a generation. If there are news, it wakes those who wait; if no request wants the answer any more, it
// cancels its making. It does so without the lock, because both may resume another request.
func (s *sharedGeneration) change(do func(f *sharedGeneration) (news bool)) {
	var changed world.Signal
	var cancel context.CancelCauseFunc
	s.owner.mu.Lock()
	if do(s) {
		changed, s.changed = s.changed, nil
	}
	if s.subscribers == 0 {
		cancel, s.cancel = s.cancel, nil
		s.owner.forget(s)
	}
	s.owner.mu.Unlock()
	if changed != nil {
		changed.Set()
	}
	if cancel != nil {
		cancel(context.Canceled)
	}
}

// subscriber is one request's part in a generation. Only one goroutine may use it, except for Depart.
type subscriber struct {
	generation *sharedGeneration
	attempt    int    // attempt that sent belongs to
	sent       []byte // the text that the request has received

	departed bool // guarded by Generations.mu
}

// eventKind says what a subscriber must do next.
type eventKind uint8

// The events.
const (
	eventLead     eventKind = iota // make the answer
	eventText                      // there is more text
	eventComplete                  // the answer is complete
	eventFailed                    // there is no answer; the error says why
	eventAlone                     // generate alone: the wait is too long
)

// event is an event with its data.
type event struct {
	Kind   eventKind
	Leader *leader      // eventLead
	Text   []byte       // eventText; read-only
	Entry  *cache.Entry // eventComplete; read-only
	Err    error        // eventFailed
}

// Next waits for the next event. If deadline is not zero, it ends a wait in which nothing has arrived yet.
// The error is the context's cause.
func (s *subscriber) Next(ctx context.Context, deadline time.Time) (event, error) {
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
			return event{}, context.Cause(ctx)
		}
		if e, changed = s.poll(); e != nil {
			return *e, nil
		}
		if late != nil {
			s.Depart()
			return event{Kind: eventAlone}, nil
		}
	}
}

// poll returns the next event, or the signal to wait for.
func (s *subscriber) poll() (e *event, changed world.Signal) {
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
func (s *subscriber) look() *event {
	f := s.generation
	switch f.stage {
	case completed:
		return &event{Kind: eventComplete, Entry: f.entry}
	case failed:
		return &event{Kind: eventFailed, Err: f.err}
	case leaderless:
		f.stage = led
		f.attempt++
		said := f.text
		f.text, f.opaque = nil, false
		return &event{Kind: eventLead, Leader: &leader{generation: f, attempt: f.attempt, sentBefore: said[:wholeRunes(said):len(said)]}}
	}
	if !f.id.Stream || f.opaque {
		return nil
	}
	if s.attempt != f.attempt {
		if !bytes.HasPrefix(f.text, s.sent[:min(len(s.sent), len(f.text))]) {
			return &event{Kind: eventFailed, Err: ErrBroken}
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
	return &event{Kind: eventText, Text: more}
}

// Sent is the text that the subscriber has received.
func (s *subscriber) Sent() []byte { return s.sent }

// Depart removes the subscriber: its client has left, has its answer, or gets it in another way. If no other
// request wants the answer, its generation is cancelled; otherwise it continues. Depart may be called again.
func (s *subscriber) Depart() {
	s.generation.change(func(f *sharedGeneration) bool {
		if s.departed {
			return false
		}
		s.departed = true
		f.subscribers--
		fs, tenant := f.owner, f.id.Key.Tenant()
		if fs.subscribers[tenant]--; fs.subscribers[tenant] == 0 {
			delete(fs.subscribers, tenant)
		}
		return false
	})
}

// Shared reports whether another request wants the answer.
func (s *subscriber) Shared() bool {
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

const (
	// maxSubscribers bounds the subscribers of a generation.
	maxSubscribers = 1024
	// maxOfTenant bounds the requests of one tenant that share answers: while they wait they occupy the gateway's
	// request slots, but none of the tenant's own.
	maxOfTenant = 1024
	// minSharedBytes is the size of an answer, in bytes, up to which it is always shared with waiting requests, even
	// if it is too large to be stored.
	minSharedBytes = 1 << 20
)

// Generations joins identical requests in progress in this process. It is safe for concurrent use.
type Generations struct {
	world world.World // for waits

	mu          sync.Mutex // of all generations: it is held for less than a microsecond a token
	all         map[generationID]*sharedGeneration
	subscribers map[[16]byte]int // by tenant
}

// NewGenerations makes Generations.
func NewGenerations(w world.World) *Generations {
	return &Generations{world: w, all: map[generationID]*sharedGeneration{}, subscribers: map[[16]byte]int{}}
}

// join adds a subscriber to the identical requests in progress; the first one to call Next leads. nil means
// that there are too many already.
func (g *Generations) join(id generationID) *subscriber {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.all[id]
	if g.subscribers[id.Key.Tenant()] >= maxOfTenant || f != nil && f.subscribers >= maxSubscribers {
		return nil
	}
	if f == nil {
		f = &sharedGeneration{owner: g, id: id}
		g.all[id] = f
	}
	f.subscribers++
	g.subscribers[id.Key.Tenant()]++
	return &subscriber{generation: f}
}

// Subscribers is the number of requests that share an answer, or may.
func (g *Generations) Subscribers() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.subscribers {
		n += of
	}
	return n
}

// forget makes the next identical request start a new generation; mu is held.
func (g *Generations) forget(f *sharedGeneration) {
	if g.all[f.id] == f {
		delete(g.all, f.id)
	}
}

// leader is the task to make a generation's answer. It must be ended with Complete or Fail; later calls have
// no effect.
type leader struct {
	generation *sharedGeneration
	attempt    int
	sentBefore []byte
}

// Sent returns the text of an earlier attempt that other subscribers may have sent to their clients. It is
// read-only.
func (l *leader) Sent() []byte { return l.sentBefore }

// change is [sharedGeneration.change] by the leader, if it must still make the answer. It reports whether it must.
func (l *leader) change(do func(f *sharedGeneration) (news bool)) (ours bool) {
	l.generation.change(func(f *sharedGeneration) bool {
		ours = f.stage == led && f.attempt == l.attempt
		return ours && do(f)
	})
	return ours
}

// Begin reports that the answer is being made; cancel cancels that, at once if no request wants it any more.
func (l *leader) Begin(cancel context.CancelCauseFunc) {
	l.change(func(f *sharedGeneration) bool { f.cancel = cancel; return false })
}

// Append sends more text to the followers.
func (l *leader) Append(text []byte) {
	l.change(func(f *sharedGeneration) bool { f.text = append(f.text, text...); return true })
}

// Opaque reports that the answer is more than text, so that it can only be shared when it is complete.
func (l *leader) Opaque() { l.change(func(f *sharedGeneration) bool { f.opaque = true; return false }) }

// Complete gives all subscribers the answer. keep stores it and calls then afterwards; nil: it is not stored.
// Requests that come until then get the answer, too.
func (l *leader) Complete(e *cache.Entry, keep func(then func())) {
	ours := l.change(func(f *sharedGeneration) bool {
		f.stage, f.entry, f.cancel = completed, e, nil
		return true
	})
	if !ours {
		return
	}
	if keep == nil {
		keep = func(then func()) { then() }
	}
	keep(func() {
		l.generation.change(func(f *sharedGeneration) bool { f.owner.forget(f); return false })
	})
}

// Fail reports that the answer could not be made. The first time another waiting subscriber tries again,
// unless hopeless is set; the second time all of them get the error.
func (l *leader) Fail(err error, hopeless bool) {
	l.change(func(f *sharedGeneration) bool {
		f.cancel = nil
		if hopeless || f.attempt > 1 || f.subscribers == 0 {
			f.stage, f.err = failed, err
			f.owner.forget(f)
		} else {
			f.stage = leaderless
		}
		return true
	})
}
