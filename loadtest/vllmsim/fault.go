package vllmsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
)

// Fault is what goes wrong from now on. The zero value is a healthy server.
type Fault struct {
	Status     int     `json:"status,omitempty"`      // generation requests are answered with this status
	RetryAfter string  `json:"retry_after,omitempty"` // its Retry-After header
	Rate       float64 `json:"rate,omitempty"`        // share of generation requests hit, by a seeded draw; 0 means all

	Hang                  string  `json:"hang,omitempty"`                     // "headers": nothing is ever sent; "stream": nothing after AfterTokens
	AfterTokens           int     `json:"after_tokens,omitempty"`             // for hang "stream"
	CutAfterBytes         int     `json:"cut_after_bytes,omitempty"`          // reset the connection after so many body bytes
	CleanEOFAfterTokens   int     `json:"clean_eof_after_tokens,omitempty"`   // end the body properly, without finish_reason or [DONE]
	AbortAfterTokens      int     `json:"abort_after_tokens,omitempty"`       // finish_reason "abort"
	ErrorEventAfterTokens int     `json:"error_event_after_tokens,omitempty"` // an error event and [DONE]; a 500 when not streaming
	Slow                  float64 `json:"slow,omitempty"`                     // every engine step takes so many times longer
	Metrics               string  `json:"metrics,omitempty"`                  // "garbage", "frozen" or "nan"

	// Score is what goes wrong with requests that score a prompt (prompt_logprobs, SGLang's logprob_start_len), and with no
	// others: while it is set, whatever this fault does to requests it does to those alone. "error": a 500.
	Score string `json:"score,omitempty"`

	KVUsage *float64 `json:"kv_usage,omitempty"` // what /metrics says of the KV cache instead of the truth
}

// ParseFault reads a fault from JSON, as POST /sim/fault takes it. A name that it does not know is an error: a fault that
// does not happen proves nothing.
func ParseFault(body []byte) (Fault, error) {
	var f Fault
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return f, errors.New("vllmsim: this is no fault: null; {} is a healthy server")
	}
	err := json.Unmarshal(body, &f, json.RejectUnknownMembers(true))
	if se, ok := errors.AsType[*json.SemanticError](err); ok && errors.Is(err, json.ErrUnknownName) {
		err = fmt.Errorf("unknown field %q", se.JSONPointer.LastToken())
	}
	if err != nil {
		return f, fmt.Errorf("vllmsim: this is no fault: %w", err)
	}
	return f, f.validate()
}

// extreme bounds what a fault stretches and how long it lasts, in seconds: times beyond it overflow.
const extreme = 1e6

func (f *Fault) validate() error {
	switch {
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("vllmsim: fault status %d is no error", f.Status)
	case f.Hang != "" && f.Hang != "headers" && f.Hang != "stream":
		return fmt.Errorf("vllmsim: unknown hang %q; known: headers, stream", f.Hang)
	case f.KVUsage != nil && !(*f.KVUsage >= 0 && *f.KVUsage <= 1):
		return errors.New("vllmsim: kv_usage is within 0..1")
	case !(f.Slow >= 0 && f.Slow <= extreme):
		return fmt.Errorf("vllmsim: fault slow is within 0..%.0f", extreme)
	case !(f.Rate >= 0 && f.Rate <= 1):
		return errors.New("vllmsim: fault rate is within 0..1")
	case f.Metrics != "" && f.Metrics != "garbage" && f.Metrics != "frozen" && f.Metrics != "nan":
		return fmt.Errorf("vllmsim: unknown metrics fault %q; known: garbage, frozen, nan", f.Metrics)
	case f.Score != "" && f.Score != scoreError:
		return fmt.Errorf("vllmsim: unknown score fault %q; known: %s", f.Score, scoreError)
	}
	return nil
}

// faults hold the current fault and count what it hits.
type faults struct {
	mu     sync.Mutex
	now    Fault
	drawn  uint64
	frozen []byte // the metrics page as it was when it froze
}

func (f *faults) get() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// hit returns the fault for one generation request, which scores or not.
func (f *faults) hit(seed uint64, scores bool) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == (Fault{}) || f.now.Score != "" && !scores {
		return Fault{}
	}
	f.drawn++
	if f.now.Rate > 0 && unit(mix(seed, f.drawn)) >= f.now.Rate {
		return Fault{}
	}
	return f.now
}

// set replaces the fault.
func (f *faults) set(now Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.drawn = now, 0
}

// SetFault replaces the current fault; the zero value clears it. Requests under way keep the fault they met. It refuses words
// that mean nothing.
func (s *Server) SetFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	if f.Metrics == "frozen" {
		page, _ := s.face.page(s) // our own registry gathers without error, or the page freezes empty
		s.faults.mu.Lock()
		s.faults.frozen = page
		s.faults.mu.Unlock()
	}
	s.faults.set(f)
	s.engine.slow(f.Slow)
	return nil
}

// nextFault draws the fault of one generation request.
func (s *Server) nextFault(body []byte) Fault {
	return s.faults.hit(s.opts.Seed, s.faults.get().Score != "" && asksForScores(body))
}

func (s *Server) serveFault(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16)) // of any type: people type this by hand
	if err != nil {
		s.writeError(w, refused(err.Error()))
		return
	}
	f, err := ParseFault(body)
	if err != nil {
		s.writeError(w, refused(err.Error()))
		return
	}
	_ = s.SetFault(f) // what it refuses has been refused above
	writeJSON(w, http.StatusOK, struct{}{})
}

// hang waits until the client leaves or the server ends.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.leaving:
	case <-s.closing:
	}
}

// cutWriter resets the connection after left bytes of body.
type cutWriter struct {
	http.ResponseWriter
	remaining int
	conn      net.Conn
}

// Unwrap lets http.ResponseController through.
func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) < w.remaining {
		n, err := w.ResponseWriter.Write(p)
		w.remaining -= n
		return n, err
	}
	_, _ = w.ResponseWriter.Write(p[:w.remaining])
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
	return &cutWriter{ResponseWriter: w, remaining: f.CutAfterBytes, conn: conn}
}
