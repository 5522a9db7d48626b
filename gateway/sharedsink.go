package gateway

import (
	"errors"
	"sync"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
)

// mostBehind is how much a leader's client may be behind the others, in bytes.
const mostBehind = 1 << 20

// errBehind is why such a client is cut off.
var errBehind = errors.New("the client is too far behind those who share its answer")

// sharedSink writes to the leader's client. Once somebody else wants the answer, too, nobody waits for that client any
// more: what it does not take is held for it, and if it is gone the answer goes on without it.
type sharedSink struct {
	*sink
	seat *cache.Seat
	lead *cache.Lead

	apart bool          // a goroutine of its own writes
	done  chan struct{} // closed when that ends
	more  chan struct{} // there is more to write, or no more comes; holds one

	panicked any // of that goroutine, when done is closed

	mu     sync.Mutex
	behind []byte // what the client is still to take
	over   bool   // no more comes
	err    error  // why it takes no more
}

var _ tiers.Sink = (*sharedSink)(nil)

// Begin implements tiers.Sink.
func (s *sharedSink) Begin(h tiers.Head) error {
	if !s.lead.Claim() {
		return cache.ErrFollows
	}
	return s.sink.Begin(h)
}

// Write implements tiers.Sink.
func (s *sharedSink) Write(p []byte) error {
	if !s.apart {
		if !s.seat.Shared() {
			err := s.sink.Write(p)
			if err == nil || !s.seat.Shared() {
				return err
			}
			s.err = err
		}
		s.part()
	}
	s.hold(p)
	return nil
}

// part has a goroutine write, until close.
func (s *sharedSink) part() {
	s.apart, s.done, s.more = true, make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(s.done)
		defer func() { s.panicked = recover() }()
		for s.writeOn() {
			<-s.more
		}
	}()
}

// writeOn writes what there is, and reports whether more may come.
func (s *sharedSink) writeOn() bool {
	for {
		s.mu.Lock()
		p, over, err := s.behind, s.over, s.err
		s.behind = nil
		s.mu.Unlock()
		switch {
		case err != nil:
			return false
		case len(p) == 0:
			return !over
		}
		if err := s.sink.Write(p); err != nil {
			s.fail(err)
		}
	}
}

func (s *sharedSink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// hold sets aside what the goroutine is to write.
func (s *sharedSink) hold(p []byte) {
	s.mu.Lock()
	if s.err == nil && len(s.behind)+len(p) > mostBehind && len(s.behind) > 0 {
		s.err, s.behind = errBehind, nil
	}
	if s.err == nil {
		s.behind = append(s.behind, p...)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *sharedSink) signal() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// close waits until the client has all, or takes no more; the error says why.
func (s *sharedSink) close() error {
	if !s.apart {
		return nil
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.signal()
	<-s.done
	if s.panicked != nil {
		panic(s.panicked) // it is this request's
	}
	return s.err
}
