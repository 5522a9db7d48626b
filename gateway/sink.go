package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers"
)

// sink writes an answer to the client: headers once, then whole frames, each
// flushed at once.
type sink struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	stream bool // what the client asked for
	began  bool
	wait   time.Duration // longest for one write, see [Timeouts]
	until  time.Time     // the write deadline in force
}

var _ tiers.Sink = (*sink)(nil)

// Begin writes the status and the headers.
func (s *sink) Begin(head tiers.Head) error {
	s.began = true
	s.stream = head.Stream
	h := s.w.Header()
	switch {
	case head.ContentType != "":
		h.Set("Content-Type", head.ContentType)
		s.stream = strings.HasPrefix(head.ContentType, "text/event-stream")
	case head.Stream:
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
	default:
		h.Set("Content-Type", "application/json")
	}
	if head.Length > 0 {
		h.Set("Content-Length", strconv.FormatInt(head.Length, 10))
	}
	if s.stream {
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx in front would hold the stream back
	}
	h.Set("X-Tier", string(head.Receipt.Tier))
	h.Set("X-Acceptance", head.Receipt.Acceptance())
	h.Set("Server-Timing", serverTiming(head.Receipt))
	s.w.WriteHeader(http.StatusOK)
	return nil
}

// Write sends p and flushes.
func (s *sink) Write(p []byte) error {
	if now := time.Now(); s.until.Sub(now) < s.wait-s.wait/10 { // renewed only now and then: it costs as much as a small write
		s.until = now.Add(s.wait)
		if err := s.rc.SetWriteDeadline(s.until); err != nil {
			return err
		}
	}
	_, err := s.w.Write(p)
	if err != nil || !s.stream {
		return err
	}
	return s.rc.Flush()
}

// serverTiming tells where the time went until the first byte, in milliseconds.
func serverTiming(rc *tiers.Receipt) string {
	var b []byte
	add := func(name string, d time.Duration) {
		if d <= 0 {
			return
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, name+";dur="...)
		b = strconv.AppendFloat(b, float64(d)/float64(time.Millisecond), 'f', 1, 64)
	}
	draft := rc.Draft
	if draft == 0 && rc.Target == 0 {
		draft = rc.First
	}
	add("draft", draft)
	add("target", rc.Target)
	add("total", rc.First)
	return string(b)
}
