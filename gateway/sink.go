package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
)

// sink writes an answer to the client: headers once, then whole frames, each flushed immediately.
type sink struct {
	w      http.ResponseWriter
	r      *http.Request
	rc     http.ResponseController
	record *tiers.Record // of the request
	stream bool          // the client asked for a stream
	began  bool          // the headers are out
	wait   time.Duration // maximum for one write, see [settings.Client]
	until  time.Time     // the current write deadline; HTTP/1.1 only
	first  time.Time     // time of the first byte

	api         *clientAPI // as in [accessRecord]
	id          string     // of the request, as the answer's headers have it
	translation            // of an answer of the cascade into another API
	room        *body      // of the request; nil: its answer comes in parts

	lines [maxSet]string // values of the answer's headers

	heartbeat
}

var _ tiers.Sink = (*sink)(nil)

// open returns the sink of a request's answer.
func (g *Gateway) open(l *accessRecord, w http.ResponseWriter, r *http.Request, stream bool) *sink {
	timeouts := g.opts.Settings.Snapshot().Route(l.route).Client
	l.sink = sink{w: w, r: r, rc: *http.NewResponseController(w), record: &l.Record, wait: timeouts.Write, stream: stream, api: l.api, id: l.requestID()}
	l.out = &l.sink
	if stream && timeouts.EarlyHeaders {
		l.out.mu.Lock()
		l.out.start(l.out.beat)
		l.out.mu.Unlock()
	}
	return l.out
}

// Begin implements tiers.Sink: it writes the status and the headers. Those of a translated answer in one piece wait for
// its length.
func (s *sink) Begin(head tiers.ResponseHead) error {
	if err := s.hold(head.Length); err != nil {
		return err
	}
	if s.encoder != nil && !head.Stream {
		s.held = head
		return nil
	}
	return s.begin(head)
}

// hold charges an answer that is there as a whole, in bytes, until the client has read it: with it is held what it was made of, and
// its translation takes as much again.
func (s *sink) hold(size int64) error {
	if s.room == nil || size <= 0 {
		return nil
	}
	if s.encoder != nil {
		size *= 2
	}
	return s.room.charge(s.room.bytes + 2*size)
}

func (s *sink) begin(head tiers.ResponseHead) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = time.Now()
	if s.began { // early
		return nil
	}
	if s.head(head); s.stream {
		s.start(s.beat)
	}
	return nil
}

// head writes the status and the headers.
func (s *sink) head(head tiers.ResponseHead) {
	s.began = true
	if s.stream != head.Stream { // a heartbeat changes nothing here: others read it without mu
		s.stream = head.Stream
	}
	h := headers{to: s.w.Header(), values: s.lines[:0]}
	switch {
	case head.ContentType != "":
		h.set("Content-Type", head.ContentType)
		s.stream = strings.HasPrefix(head.ContentType, "text/event-stream")
	case head.Stream:
		h.set("Content-Type", "text/event-stream; charset=utf-8")
	default:
		h.set("Content-Type", "application/json")
	}
	if head.Length > 0 && !head.Stream { // an event may come before it
		h.set("Content-Length", strconv.FormatInt(head.Length, 10))
	}
	if s.stream {
		h.set("Cache-Control", "no-cache")
		h.set("X-Accel-Buffering", "no") // otherwise nginx buffers the stream
	}
	if head.FromCache {
		h.set("Age", strconv.FormatInt(int64(head.Age/time.Second), 10))
	}
	h.set("X-Tier", head.Tier)
	h.set("X-Acceptance", head.Acceptance)
	h.set("Server-Timing", serverTiming(head.Timing))
	h.tell(s.record)
	s.w.WriteHeader(http.StatusOK)
}

// breakOff sends the error event to the client of a stream. The connection is aborted afterwards,
// whether or not the event arrives.
func (s *sink) breakOff(p *problem) {
	if s.stream {
		_ = s.send(s.errorEvent(p))
	}
}

// errorEvent is the event that ends a broken stream, in the form of its API. Errors that name the request have the id of the
// headers, not that of the answer, which is the gateway's own.
func (s *sink) errorEvent(p *problem) []byte {
	if s.api == nil {
		return openai.ErrorEvent(nil, p.body)
	}
	encoder := s.encoder
	if encoder == nil || s.api.namesRequest {
		encoder = s.api.NewEncoder(s.id)
	}
	return encoder.Broken(nil, p.status, p.body)
}

// tell sets the headers of every answer, including errors: cache result and rate limits.
func (h *headers) tell(r *tiers.Record) {
	switch r.Cache {
	case "":
	case cache.ResultHit, cache.ResultLocal:
		h.set("X-Cache", "HIT")
	case cache.ResultCoalesced:
		h.set("X-Cache", "COALESCED")
	case cache.ResultBypass:
		h.set("X-Cache", "BYPASS")
	default:
		h.set("X-Cache", "MISS")
	}
	setRateLimitHeaders(h.to, r.LimitStatus)
}

// headers sets several headers with one allocation.
type headers struct {
	to     http.Header
	values []string // all values set, each the list of one header
}

// maxSet is the maximum number of headers of an answer.
const maxSet = 9

// set sets a header, whose name is in canonical form; "" sets nothing.
func (h *headers) set(name, value string) {
	if value == "" {
		return
	}
	if len(h.values) == cap(h.values) {
		h.values = make([]string, 0, maxSet)
	}
	n := len(h.values)
	h.values = append(h.values, value)
	h.to[name] = h.values[n : n+1 : n+1]
}

// Write implements tiers.Sink.
func (s *sink) Write(p []byte) error {
	p, bad := s.encode(p)
	if len(p) > 0 {
		if err := s.send(p); err != nil {
			return err
		}
	}
	return bad
}

// encode returns what the client gets of a part of the answer. It is valid until the next call.
func (s *sink) encode(p []byte) ([]byte, error) {
	switch {
	case s.encoder == nil:
		return p, nil
	case !s.began:
		s.whole = append(s.whole, p...)
		return nil, nil
	}
	return s.part(p)
}

// finish sends what is left of a translated answer when the cascade has answered.
func (s *sink) finish() error {
	if s.encoder == nil {
		return nil
	}
	if s.began {
		end, err := s.end()
		if err != nil || len(end) == 0 {
			return err
		}
		return s.send(end)
	}
	body, err := s.inOnePiece()
	if err != nil {
		return err
	}
	s.held.Length = int64(len(body))
	if err := s.begin(s.held); err != nil {
		return err
	}
	return s.send(body)
}

// send sends p and flushes.
func (s *sink) send(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(p)
	return s.write(p)
}

// write bounds one write. With HTTP/1.1 the deadline is looked at while something is written only. With HTTP/2 it is a timer that
// resets the stream, even if the answer only waits for its next token, so it is lifted afterwards.
func (s *sink) write(p []byte) error {
	if s.r.ProtoMajor >= 2 {
		_ = s.rc.SetWriteDeadline(time.Now().Add(s.wait)) // it cannot fail with HTTP/2
		defer func() { _ = s.rc.SetWriteDeadline(time.Time{}) }()
	} else if now := time.Now(); s.until.Sub(now) < s.wait-s.wait/10 { // not on every write: it costs as much as a small write
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

// serverTiming names the phases until the first byte; "" if there is nothing to report.
func serverTiming(t tiers.Timing) string {
	var room [128]byte
	b := room[:0]
	for _, phase := range [...]struct {
		name string
		took time.Duration
	}{{"cache", t.Cache}, {"draft", t.Draft}, {"verify", t.Verify}, {"target", t.Target}, {"total", t.Total}} {
		if phase.took <= 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, phase.name...), ";dur="...)
		b = strconv.AppendFloat(b, phase.took.Seconds()*1000, 'f', 1, 64)
	}
	return string(b)
}
