package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/receipt"
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
	lookup time.Duration // spent on the cache
	first  time.Time     // of the first byte
}

// head is what an answer's headers say.
type head struct {
	tier, acceptance string // "" is not told
	age              string // in whole seconds, of a kept answer
	stream           bool
	contentType      string // of an answer that passes through
	length           int64  // of the body; 0 or less is unknown
	timing           string // Server-Timing
}

var _ tiers.Sink = (*sink)(nil)

// Begin implements tiers.Sink.
func (s *sink) Begin(h tiers.Head) error {
	return s.begin(head{
		tier: string(h.Receipt.Tier), acceptance: h.Receipt.Acceptance(), stream: h.Stream,
		contentType: h.ContentType, length: h.Length, timing: serverTiming(s.lookup, h.Receipt),
	})
}

// begin writes the status and the headers.
func (s *sink) begin(head head) error {
	s.began, s.first = true, time.Now()
	s.stream = head.stream
	h := headers{to: s.w.Header()}
	switch {
	case head.contentType != "":
		h.set("Content-Type", head.contentType)
		s.stream = strings.HasPrefix(head.contentType, "text/event-stream")
	case head.stream:
		h.set("Content-Type", "text/event-stream; charset=utf-8")
	default:
		h.set("Content-Type", "application/json")
	}
	if head.length > 0 {
		h.set("Content-Length", strconv.FormatInt(head.length, 10))
	}
	if s.stream {
		h.set("Cache-Control", "no-cache")
		h.set("X-Accel-Buffering", "no") // nginx in front would hold the stream back
	}
	h.set("Age", head.age)
	h.set("X-Tier", head.tier)
	h.set("X-Acceptance", head.acceptance)
	h.set("Server-Timing", head.timing)
	s.w.WriteHeader(http.StatusOK)
	return nil
}

// headers sets several at a time, for one allocation.
type headers struct {
	to     http.Header
	values []string // what was set, each the list of one header
}

// mostSet is how many headers an answer has at most.
const mostSet = 8

// set sets a header, whose name is in canonical form; "" is not told.
func (h *headers) set(name, value string) {
	if value == "" {
		return
	}
	if len(h.values) == cap(h.values) {
		h.values = make([]string, 0, mostSet)
	}
	n := len(h.values)
	h.values = append(h.values, value)
	h.to[name] = h.values[n : n+1 : n+1]
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

// timing is the value of Server-Timing: phases, in milliseconds.
type timing []byte

func (t timing) add(name string, d time.Duration) timing {
	if d <= 0 {
		return t
	}
	b := t
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(append(b, name...), ";dur="...)
	tenths := int64((d + 50*time.Microsecond) / (100 * time.Microsecond))
	return append(strconv.AppendInt(b, tenths/10, 10), '.', '0'+byte(tenths%10))
}

// serverTiming tells where the time went until the first byte.
func serverTiming(lookup time.Duration, rc *receipt.Receipt) string {
	t := make(timing, 0, 80)
	t = t.add("cache", lookup)
	draft := rc.Draft
	if draft == 0 && rc.Target == 0 {
		draft = rc.First - rc.Verify
	}
	return string(t.add("draft", draft).add("verify", rc.Verify).add("target", rc.Target).add("total", rc.First))
}

// cachedTiming is serverTiming of an answer from the cache.
func cachedTiming(lookup, total time.Duration) string {
	t := make(timing, 0, 40)
	return string(t.add("cache", lookup).add("total", total))
}
