package gateway

import (
	"bytes"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers"
)

// maxSilence is how long the client of a stream may get nothing: proxies take a longer silence for a dead connection.
const maxSilence = 10 * time.Second

// comment is an event without data, which clients skip.
var comment = []byte(": ping\n\n")

// heartbeat sends comments to the client of a stream that waits. Its mutex guards the response; a sink of other answers has
// no timer.
type heartbeat struct {
	mu      sync.Mutex
	timer   *time.Timer
	wrote   time.Time // the last time
	partial bool      // the last write ended within an event
	over    bool      // the handler returns, or refuses the request
}

// start begins the silence of a stream. The caller holds mu.
func (h *heartbeat) start(beat func()) {
	if h.timer == nil && !h.over {
		h.wrote = time.Now()
		h.timer = time.AfterFunc(maxSilence, beat)
	}
}

// note notes a write. The caller holds mu.
func (h *heartbeat) note(p []byte) {
	if h.timer != nil {
		h.wrote, h.partial = time.Now(), !bytes.HasSuffix(p, []byte("\n\n")) && !bytes.HasSuffix(p, []byte("\r\n\r\n"))
	}
}

// stop returns when no comment will be written any more.
func (h *heartbeat) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.timer != nil {
		h.timer.Stop()
	}
}

// beat is the timer's function. An error is found by the next write of the answer.
func (s *sink) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maxSilence - time.Since(s.wrote)
	switch {
	case s.over:
		return
	case left > 0:
	case s.partial:
		left = maxSilence
	default:
		if !s.began {
			s.head(tiers.ResponseHead{Stream: true})
		}
		_ = s.write(comment)
		left = maxSilence
	}
	s.timer.Reset(left)
}
