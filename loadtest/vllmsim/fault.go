package vllmsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Fault is what goes wrong from now on. The zero value is a healthy server.
type Fault struct {
	Status     int     `json:"status,omitempty"`      // generation requests are answered with this status
	RetryAfter string  `json:"retry_after,omitempty"` // its Retry-After header
	Rate       float64 `json:"rate,omitempty"`        // share of generation requests hit, by a seeded draw; 0 means all
	For        int     `json:"for,omitempty"`         // clear after so many hit requests; 0 = until cleared

	Hang                  string  `json:"hang,omitempty"`                     // "headers": nothing is ever sent; "stream": nothing after AfterTokens; "process": no step ends and no request is answered while it lasts, as after SIGSTOP
	AfterTokens           int     `json:"after_tokens,omitempty"`             // for hang "stream"
	CutAfterBytes         int     `json:"cut_after_bytes,omitempty"`          // reset the connection after so many body bytes
	CleanEOFAfterTokens   int     `json:"clean_eof_after_tokens,omitempty"`   // end the body properly, without finish_reason or [DONE]
	AbortAfterTokens      int     `json:"abort_after_tokens,omitempty"`       // finish_reason "abort"
	ErrorEventAfterTokens int     `json:"error_event_after_tokens,omitempty"` // an error event and [DONE]; a 500 when not streaming
	Slow                  float64 `json:"slow,omitempty"`                     // every engine step takes so many times longer
	Metrics               string  `json:"metrics,omitempty"`                  // "garbage", "frozen" or "nan"

	// Score is what goes wrong with requests that score a prompt (prompt_logprobs, SGLang's logprob_start_len), and with no
	// others: while it is set, whatever this fault does to requests it does to those alone. "error": a 500. "hang": no answer.
	// "short": the array's first entries are left out, up to the last full block. "misaligned": entries stand one place late, so
	// that a token's own id is not in its entry. "garbage": logprobs or entries are null or text. "die": the engine dies, as out
	// of memory, when it schedules the request.
	Score string `json:"score,omitempty"`

	KVUsage *float64 `json:"kv_usage,omitempty"` // what /metrics says of the KV cache instead of the truth

	Die bool `json:"die,omitempty"` // the engine dies, once, and the process with it, for [Options.Restart]
}

const hangProcess = "process"

// lasting is the fault without what strikes once.
func (f Fault) lasting() Fault {
	f.Die = false
	return f
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
	case f.Hang != "" && f.Hang != "headers" && f.Hang != "stream" && f.Hang != hangProcess:
		return fmt.Errorf("vllmsim: unknown hang %q; known: headers, stream, process", f.Hang)
	case f.KVUsage != nil && !(*f.KVUsage >= 0 && *f.KVUsage <= 1):
		return errors.New("vllmsim: kv_usage is within 0..1")
	case !(f.Slow >= 0 && f.Slow <= extreme):
		return fmt.Errorf("vllmsim: fault slow is within 0..%.0f", extreme)
	case !(f.Rate >= 0 && f.Rate <= 1):
		return errors.New("vllmsim: fault rate is within 0..1")
	case f.Metrics != "" && f.Metrics != "garbage" && f.Metrics != "frozen" && f.Metrics != "nan":
		return fmt.Errorf("vllmsim: unknown metrics fault %q; known: garbage, frozen, nan", f.Metrics)
	case f.Score != "" && !slices.Contains(scoreFaults, f.Score):
		return fmt.Errorf("vllmsim: unknown score fault %q; known: %s", f.Score, strings.Join(scoreFaults, ", "))
	}
	return nil
}

// faults hold the current fault and count what it hits.
type faults struct {
	mu        sync.Mutex
	now       Fault
	drawn     uint64
	remaining int
	frozen    []byte        // the metrics page as it was when it froze
	thaw      chan struct{} // closed when the process goes on; nil: it does not hang
}

func (f *faults) get() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// hit returns the fault for one generation request, which scores or not; cleared reports that it was the last one.
func (f *faults) hit(seed uint64, scores bool) (now Fault, cleared bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now = f.now
	if now == (Fault{}) || now.Score != "" && !scores {
		return Fault{}, false
	}
	f.drawn++
	if now.Rate > 0 && unit(mix(seed, f.drawn)) >= now.Rate {
		return Fault{}, false
	}
	if now.For > 0 {
		if f.remaining--; f.remaining == 0 {
			f.now, cleared = Fault{}, true
		}
	}
	return now, cleared
}

// set replaces the lasting part.
func (f *faults) set(now Fault) {
	f.mu.Lock()
	f.now, f.remaining, f.drawn = now, now.For, 0
	if f.thaw != nil {
		close(f.thaw)
		f.thaw = nil
	}
	if now.Hang == hangProcess {
		f.thaw = make(chan struct{})
	}
	f.mu.Unlock()
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
	s.faults.set(f.lasting())
	if !f.Die {
		s.life().engine.ail(&f)
		return nil
	}
	s.life().engine.kill() // Run does the rest; the next life is as slow as this fault says
	return nil
}

// nextFault draws the fault of one generation request.
func (s *Server) nextFault(body []byte) Fault {
	f, cleared := s.faults.hit(s.opts.Seed, s.faults.get().Score != "" && asksForScores(body))
	if cleared {
		s.life().engine.ail(&Fault{})
	}
	return f
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
	// A death takes this connection, too: the answer must be out before it strikes.
	w.Header().Set("Content-Length", "2")
	writeJSON(w, http.StatusOK, struct{}{})
	_ = http.NewResponseController(w).Flush() // a client that is gone gets its fault all the same
	_ = s.SetFault(f)                         // what it refuses has been refused above
}

// thawed waits until the process does not hang. It reports false where the client left or the server ended first.
func (s *Server) thawed(r *http.Request) bool {
	s.faults.mu.Lock()
	thaw := s.faults.thaw
	s.faults.mu.Unlock()
	if thaw == nil || strings.HasPrefix(r.URL.Path, "/sim/") {
		return true
	}
	// net/http notices that a client left only after the body was read.
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	select {
	case <-thaw:
		return true
	case <-r.Context().Done():
	case <-s.life().over:
	case <-s.leaving:
	case <-s.closing:
	}
	return false
}

// hang waits until the client leaves or the server dies.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.life().over:
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
