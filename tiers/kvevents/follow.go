package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

const (
	retryFirst    = 100 * time.Millisecond
	maxRetryDelay = 2 * time.Second
	replayIn      = 10 * time.Second // longest replay; after it the missed messages stay missed
	endOfPast     = math.MaxUint64   // the sequence number that ends a replay
)

// Follow subscribes to the KV events of one engine of a backend at endpoint, tcp://HOST:PORT, until ctx ends.
// Data-parallel rank r has PORT + r, so a backend needs one call per rank. It reconnects when the connection
// breaks, 0.1 to 2 s later. If endpoint is invalid, it returns an error at once.
func (x *Index) Follow(ctx context.Context, name, endpoint string) error {
	addr, ok := strings.CutPrefix(endpoint, "tcp://")
	if _, _, err := net.SplitHostPort(addr); err != nil || !ok {
		return fmt.Errorf("kvevents: endpoint %q of %s is not tcp://HOST:PORT", endpoint, name)
	}
	b, f := x.join(name)
	defer x.leave(name, f)
	s := &session{x: x, b: b, f: f, endpoint: endpoint}
	if x.o.Replay != nil {
		s.replayAt = x.o.Replay(endpoint)
	}
	log := x.o.Logger.With().Str("backend", name).Str("endpoint", endpoint).Logger()
	wait, quiet := retryFirst, false
	for ctx.Err() == nil {
		began := time.Now()
		err := s.listen(ctx)
		x.set(b, f, false, false)
		if time.Since(began) > maxRetryDelay {
			wait, quiet = retryFirst, false
		}
		if ctx.Err() == nil && !quiet {
			log.Warn().Err(err).Msg("KV events: the feed is down")
			quiet = true // until it has been connected for a while
		}
		pause(ctx, wait/2+rand.N(wait/2))
		wait = min(2*wait, maxRetryDelay)
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// session is one connection to a publisher and its position in the sequence.
type session struct {
	x                  *Index
	b                  *backend
	f                  *feed
	endpoint, replayAt string

	placed       bool   // next is known
	next         uint64 // expected number of the next message
	replayedUpTo uint64 // lower messages may come again, because they were replayed
	ev           event
}

// listen processes events until the connection breaks.
func (s *session) listen(ctx context.Context) error {
	w, err := connect(ctx, s.x.o.Dial, s.endpoint, "SUB")
	if err != nil {
		return err
	}
	defer w.close()
	defer context.AfterFunc(ctx, w.close)()
	if err := w.send([]byte{1}); err != nil { // every topic
		return err
	}
	s.placed, s.next, s.replayedUpTo = false, 0, 0
	s.x.set(s.b, s.f, true, false)
	if s.replayAt != "" && s.replay(ctx, 0) == nil {
		s.placed = true
	}
	for {
		frames, err := w.receive()
		if err != nil {
			if errors.Is(err, errWire) {
				s.x.met.events[kindBad].Inc()
			}
			return err
		}
		if len(frames) != 3 || len(frames[1]) != 8 {
			s.lose(kindBad)
			continue
		}
		s.take(ctx, binary.BigEndian.Uint64(frames[1]), frames[2])
	}
}

// lose forgets everything from the feed, because some of it is missing now.
func (s *session) lose(why kind) {
	s.x.met.events[why].Inc()
	s.x.set(s.b, s.f, true, false)
}

// take processes one live message.
func (s *session) take(ctx context.Context, seq uint64, payload []byte) {
	switch {
	case !s.placed:
		s.begin(seq)
	case seq < s.replayedUpTo:
		return
	case seq < s.next: // only another publisher restarts the numbers
		s.lose(kindGap)
		s.begin(seq)
	case seq > s.next:
		if s.fill(ctx, seq) {
			return
		}
	}
	s.put(seq, payload)
}

// begin starts at a message: with number 0 it is the first one.
func (s *session) begin(seq uint64) {
	s.placed, s.next, s.replayedUpTo = true, seq, 0
	s.x.set(s.b, s.f, true, seq == 0)
}

// fill replays the messages before seq; done reports that this included seq itself.
func (s *session) fill(ctx context.Context, seq uint64) (done bool) {
	if s.replayAt != "" && s.replay(ctx, s.next) == nil && s.next >= seq {
		s.x.met.events[kindGap].Inc()
		return s.next > seq
	}
	s.lose(kindGap)
	return false
}

// put applies a message. One that cannot be decoded may have been about any block.
func (s *session) put(seq uint64, payload []byte) {
	s.next = seq + 1
	if err := decode(payload, &s.ev, func(ev *event) { s.x.apply(s.b, s.f, ev) }); err != nil {
		s.lose(kindBad)
	}
}

// replay requests the messages from a number on and processes them. If the publisher no longer has the first
// of them, the feed is incomplete from then on.
func (s *session) replay(ctx context.Context, from uint64) error {
	ctx, cancel := context.WithTimeout(ctx, replayIn)
	defer cancel()
	w, err := connect(ctx, s.x.o.Dial, s.replayAt, "DEALER")
	if err != nil {
		return err
	}
	defer w.close()
	defer context.AfterFunc(ctx, w.close)()
	if err := w.send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		return err
	}
	if from == 0 {
		s.x.set(s.b, s.f, true, true)
	}
	s.next = from
	for {
		frames, err := w.receive()
		if err != nil {
			s.x.set(s.b, s.f, true, false)
			return err
		}
		// An empty frame, the topic (since July 2026), the number, the payload.
		n := len(frames)
		if n < 3 || len(frames[n-2]) != 8 {
			s.lose(kindBad)
			return errWire
		}
		seq := binary.BigEndian.Uint64(frames[n-2])
		if seq == endOfPast {
			s.replayedUpTo = s.next
			return nil
		}
		if seq != s.next {
			s.x.set(s.b, s.f, true, false)
		}
		s.put(seq, frames[n-1])
	}
}
