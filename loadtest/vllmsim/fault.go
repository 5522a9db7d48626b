package vllmsim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// Fault is what goes wrong from now on. The zero value is a healthy server.
type Fault struct {
	Status     int     `json:"status,omitempty"`      // generation requests are answered with this status
	RetryAfter string  `json:"retry_after,omitempty"` // its Retry-After header
	Rate       float64 `json:"rate,omitempty"`        // share of generation requests hit, by a seeded draw; 0 means all
	For        int     `json:"for,omitempty"`         // clear after so many hit requests; 0 = until cleared

	Hang                  string  `json:"hang,omitempty"`                     // "headers": nothing is ever sent; "stream": nothing after AfterTokens
	AfterTokens           int     `json:"after_tokens,omitempty"`             // for hang "stream"
	CutAfterBytes         int     `json:"cut_after_bytes,omitempty"`          // reset the connection after so many body bytes
	CleanEOFAfterTokens   int     `json:"clean_eof_after_tokens,omitempty"`   // end the body properly, without finish_reason or [DONE]
	AbortAfterTokens      int     `json:"abort_after_tokens,omitempty"`       // finish_reason "abort"
	ErrorEventAfterTokens int     `json:"error_event_after_tokens,omitempty"` // an error event and [DONE]; a 500 when not streaming
	Slow                  float64 `json:"slow,omitempty"`                     // every engine step takes so many times longer
	Metrics               string  `json:"metrics,omitempty"`                  // "garbage", "missing", "frozen" or "nan"
	FlatErrors            bool    `json:"flat_errors,omitempty"`              // error bodies up to v0.10.0
}

func (f *Fault) validate() error {
	switch {
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("vllmsim: fault status %d is no error", f.Status)
	case f.Hang != "" && f.Hang != "headers" && f.Hang != "stream":
		return fmt.Errorf("vllmsim: unknown hang %q; known: headers, stream", f.Hang)
	case f.Rate < 0 || f.Rate > 1 || f.Slow < 0 || f.For < 0:
		return errors.New("vllmsim: fault rate is within 0..1, slow and for are not negative")
	case f.Metrics != "" && f.Metrics != "garbage" && f.Metrics != "missing" && f.Metrics != "frozen" && f.Metrics != "nan":
		return fmt.Errorf("vllmsim: unknown metrics fault %q; known: garbage, missing, frozen, nan", f.Metrics)
	}
	return nil
}

// faults hold the current fault and count what it hits.
type faults struct {
	mu     sync.Mutex
	now    Fault
	drawn  uint64
	left   int
	frozen []byte // the metrics page as it was when it froze
}

func (f *faults) get() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// hit returns the fault for one generation request; cleared reports that it was the last one.
func (f *faults) hit(seed uint64) (now Fault, cleared bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now = f.now
	if now == (Fault{}) {
		return now, false
	}
	f.drawn++
	if now.Rate > 0 && unit(mix(seed, f.drawn)) >= now.Rate {
		return Fault{}, false
	}
	if now.For > 0 {
		if f.left--; f.left == 0 {
			f.now, cleared = Fault{}, true
		}
	}
	return now, cleared
}

// SetFault replaces the current fault; the zero value clears it. Requests under way keep the fault they met. Words that
// mean nothing (an unknown hang) do nothing; POST /sim/fault refuses them.
func (s *Server) SetFault(f Fault) {
	var page []byte
	if f.Metrics == "frozen" {
		page, _ = expose(s.met.reg) // our own registry gathers without error, or the page freezes empty
	}
	s.faults.mu.Lock()
	s.faults.now, s.faults.left, s.faults.drawn, s.faults.frozen = f, f.For, 0, page
	s.faults.mu.Unlock()
	s.engine.setSlow(f.Slow)
}

// nextFault draws the fault of one generation request.
func (s *Server) nextFault() Fault {
	f, cleared := s.faults.hit(s.opts.Seed)
	if cleared {
		s.engine.setSlow(0)
	}
	return f
}

func (s *Server) serveFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16)) // of any type: people type this by hand
	if err != nil {
		s.writeError(w, refused(err.Error()))
		return
	}
	if err := decode(body, &f); err != nil {
		s.writeError(w, err)
		return
	}
	if err := f.validate(); err != nil {
		s.writeError(w, refused(err.Error()))
		return
	}
	s.SetFault(f)
	writeJSON(w, http.StatusOK, []byte("{}"))
}

// hang waits until the client leaves or the server dies.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closing:
	}
}

// cutWriter resets the connection after left bytes of body.
type cutWriter struct {
	http.ResponseWriter
	left int
	conn net.Conn
}

// Unwrap lets http.ResponseController through.
func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) < w.left {
		n, err := w.ResponseWriter.Write(p)
		w.left -= n
		return n, err
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		// Half the bytes may sit in the peer's socket still: a reset throws them away there, as a dying host does.
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
	panic(http.ErrAbortHandler) // net/http's way to end without ending the body
}

// withCut wraps w if the fault cuts.
func withCut(w http.ResponseWriter, r *http.Request, f *Fault) http.ResponseWriter {
	if f.CutAfterBytes <= 0 {
		return w
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return &cutWriter{ResponseWriter: w, left: f.CutAfterBytes, conn: conn}
}
