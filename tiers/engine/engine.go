// Package engine is the vocabulary between the gateway and its engines: a request to an engine ([Call]), one attempt at
// one backend ([Attempt]), the interface that makes attempts ([Upstream]), the streamed answer ([Stream]) and the reason
// if there is none ([Failure]).
//
// The gateway's Upstream makes an HTTP exchange (tiers/upstream); the lab's uses the simulator's scheduler.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// Upstream makes attempts.
type Upstream interface {
	// Open sends an attempt and waits for its first byte: the first event of a stream, or the whole
	// of another answer, which is then where the call's Into points. The error is a *Failure that
	// names no pool and backend; then nothing is left open. The end of ctx ends the exchange, after
	// Open has returned, too.
	Open(ctx context.Context, a *Attempt) (Stream, error)
}

// Stream is a running exchange with an engine. It is for one goroutine.
type Stream interface {
	// Next waits for the next chunk, for the attempt's IdleTimeout at most. The chunk is valid until
	// the next call. The error is io.EOF behind the last chunk; any other is a *Failure that names no
	// pool and backend. Of an answer in one piece there is no chunk.
	Next(want Want) (*openai.Chunk, error)
	// Buffered reports whether Next returns at once.
	Buffered() bool
	// Close ends the exchange. An engine that is still at work is told to stop. Only the first call
	// counts.
	Close()
}

// Want says how much of a chunk must be parsed.
type Want uint8

// The values.
const (
	WantTokens Want = iota // text, ids and logprobs, as far as the call asks for them
	WantTops               // the logprobs of the alternatives, too
)

// Attempt is one call at one backend.
type Attempt struct {
	Call Call

	Backend string       // its id in the pool
	URL     string       // its base URL without a trailing slash
	Engine  dialect.Kind // its kind; "" is not known yet

	ID     string      // that the engine is to know the call by; "" names none
	Header http.Header // to be sent along: the trace, or another User-Agent. It must not be changed

	Credentials *credentials.Credentials // that the pool shows to its engines; nil is none

	FirstByteTimeout time.Duration // the longest wait for the first byte; 0 is as long as ctx lives
	IdleTimeout      time.Duration // the longest wait for the next chunk, or the next bytes

	MaxPrompt int // tokens that its prompts can have; 0 goes by the bytes that are sent
	MaxAnswer int // tokens that its answer can have

	// Pause is set by Upstream: for how long the backend wants no further request, by its limits of rates; 0 tells none.
	Pause time.Duration
	// Used is set by Upstream: the token counts of an answer in one piece, limited to what is possible. A stream reports
	// them in its chunks.
	Used openai.Usage
}

// FinishTracker tracks which choices of an answer have ended. The zero value waits for one choice.
type FinishTracker struct {
	Want         int          // choices of a whole answer; 0 is 1
	begun, ended map[int]bool // by index
}

// Add takes what a chunk says of its choices.
func (f *FinishTracker) Add(c *openai.Chunk) {
	f.mark(&f.begun, c.Begun)
	f.mark(&f.begun, c.Ended)
	f.mark(&f.ended, c.Ended)
}

func (f *FinishTracker) mark(marked *map[int]bool, indexes []int) {
	want := max(f.Want, 1)
	for _, i := range indexes {
		if want == 1 {
			i = 0 // there is no other, whatever the engine calls it
		}
		if *marked == nil {
			*marked = map[int]bool{}
		}
		if i >= 0 && i < want {
			(*marked)[i] = true
		}
	}
}

// All reports whether every choice has ended.
func (f *FinishTracker) All() bool { return len(f.ended) >= max(f.Want, 1) }

// AllBegun reports whether every choice that has begun has ended, and there is one. Where the engine says that the answer
// is done, that is all of it: some engines ignore n.
func (f *FinishTracker) AllBegun() bool { return len(f.ended) > 0 && len(f.ended) == len(f.begun) }

// Call is a request to an engine: one of the types below. It does not change after it was made; Into is set when the
// answer has come.
type Call any

// Terms are sent to an engine with every call.
type Terms = openai.Terms

// Relay requests an answer to pass on without judging it, streamed if the request is.
type Relay struct {
	Terms
	Request *openai.Request
	Into    *openai.Chunk // where the answer is not streamed: all of it
}

// Draft asks for a streamed answer with ids, logprobs and alternatives of each token. The gateway
// matches its stop strings itself.
type Draft struct {
	Terms
	Request *openai.Request
	Counted bool // each chunk tells the usage so far, because it tells no ids
}

// Answer asks for a whole answer in one piece.
type Answer struct {
	Terms
	Request *openai.Request
	Draft   bool // as Draft: with ids, logprobs and alternatives of each token
	Into    *openai.DraftAnswer
}

// ContinueIDs requests the rest of an answer as a stream, after token ids.
type ContinueIDs struct {
	Terms
	Request        *openai.Request // samples as it does
	PromptIDs, IDs []int32         // of the prompt, and of the answer so far
	MaxTokens      int             // of the rest, more than 0
}

// ContinueText requests the rest of an answer as a stream, after a text.
type ContinueText struct {
	Terms
	Request   *openai.Request
	Text      []byte // of the answer so far; empty asks for all of it
	MaxTokens int    // of the rest; 0 is as the request says

	Found  dialect.Continue // what the pool's probed engine answers to it, which is of the kind Probed
	Probed dialect.Kind
}

// Score requests the scores of ids after a prompt.
type Score struct {
	Question openai.ScoreQuestion
	Into     *openai.Scores
}

// Judge asks in words whether an answer is correct.
type Judge struct {
	Question openai.JudgeQuestion // but for what engines differ in
	Thinks   bool                 // the engine thinks before it answers unless it is told not to
	Into     *openai.Judgement
}

// TokenizeText asks for the ids of a text.
type TokenizeText struct {
	Model string
	Text  []byte
	Into  *[]int32
}

// TokenizePrompt asks for the ids of a request's prompt, with its template.
type TokenizePrompt struct {
	Model   string
	Request *openai.Request
	Into    *[]int32
}

// Detokenize asks for the text of ids.
type Detokenize struct {
	Model string
	IDs   []int32
	Into  *[]byte
}

// Ask reads what an engine tells of itself, by GET.
type Ask struct {
	Path string
	Into *[]byte // the body of its answer
}

// Forward sends a body unchanged. Its answer comes as raw bytes: [openai.Chunk].Raw.
type Forward struct {
	Path string
	Body []byte
	Into *Forwarded
}

// Forwarded is the head of such an answer.
type Forwarded struct {
	Type   string // its media type, in the gateway's own words
	Length int64  // of its body in bytes; less than 0 is unknown
	Events bool   // it is a stream of events

	// Used is what the answer has told of its tokens with the chunks so far, within what can be. Until
	// it has ended, and where it tells nothing, each event with a part of an answer counts as a token.
	Used openai.Usage
}

// FailureKind names what went wrong with one call to one backend.
type FailureKind string

// The kinds, as metrics and error codes name them.
const (
	Refused      FailureKind = "upstream_refused"      // no connection
	Timeout      FailureKind = "upstream_timeout"      // no first byte in time
	Silent       FailureKind = "upstream_silent"       // its backend seems to hang: the call moves to another
	Stalled      FailureKind = "upstream_stalled"      // silence inside a stream
	Reset        FailureKind = "upstream_reset"        // the connection broke
	Cut          FailureKind = "upstream_cut"          // the stream ended without its end
	ServerError  FailureKind = "upstream_error"        // 5xx, or an error event
	Backpressure FailureKind = "upstream_busy"         // 429 or 503
	Rejected     FailureKind = "upstream_rejected"     // another 4xx: the request is at fault
	WrongModel   FailureKind = "upstream_wrong_model"  // 404, 405, 410, 421 or 501: the backend does not serve the pool's model, or not its API
	Unauthorized FailureKind = "upstream_auth"         // 401, 403 or a refused TLS connection: the pool's settings are at fault
	BadResponse  FailureKind = "bad_upstream_response" // not what the API promises
	TooLarge     FailureKind = "answer_too_large"      // above limits.response_bytes, for which nobody is at fault
	Aborted      FailureKind = "upstream_aborted"      // finish_reason "abort"
	ClientGone   FailureKind = "client_gone"           // the client left
	Expired      FailureKind = "deadline"              // the request's whole deadline passed
	Exhausted    FailureKind = "gateway_exhausted"     // this gateway ran out of files, ports or memory
)

// Failure is why one call to a backend failed.
type Failure struct {
	Kind             FailureKind
	Pool             string
	Backend          string
	Status           int           // that the failure is about: of the response, or as an error event names it; 0 is none
	Responded        int           // status of the response, 200 too; 0 when there was none
	Path             string        // that a WrongModel was about
	Fault            *openai.Fault // what the backend said, nil when nothing
	RetryAfter       time.Duration // what the backend asked for
	Err              error
	ReusedConnection bool // a kept connection broke before a byte came
	StaleConnection  bool // it did so at once: it may have been closed while it was idle
}

// Error names the backend and the cause; it is for operators. What the backend wrote is not in it: that may repeat the prompt.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s: backend %s: %s%s", f.Pool, f.Backend, f.Kind, f.Reply())
	if f.Err != nil {
		fmt.Fprintf(&b, ": %v", f.Err)
	}
	return b.String()
}

// Reply returns the status and the code that the backend answered, as ": status 404: model_not_found"; "" if none.
func (f *Failure) Reply() (said string) {
	if f.Status != 0 {
		said = fmt.Sprintf(": status %d", f.Status)
	}
	if f.Fault != nil && f.Fault.Code != "" {
		said += ": " + f.Fault.Code
	}
	return said
}

// AboveLimit is the cause of a [TooLarge]: the answer has more bytes than the limit.
func AboveLimit(limit int64) error {
	return fmt.Errorf("an answer above limits.response_bytes (%d)", limit)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retryable reports whether another backend might do better.
func (f *Failure) Retryable() bool {
	switch f.Kind {
	case Rejected, TooLarge, ClientGone, Expired:
		return false
	}
	return true
}

// IsBackendLost reports whether the connection was refused or broke, or the backend hangs or ends its work: the
// backend, not its work, is at fault.
func (f *Failure) IsBackendLost() bool {
	return f.Kind == Refused || f.Kind == Reset || f.Kind == Cut || f.Kind == Silent || f.Kind == Aborted
}

// MayHaveWorked reports whether the backend may have begun to answer before the call failed. Nobody has worked behind a
// connection that had been closed while it was idle.
func (f *Failure) MayHaveWorked() bool {
	switch f.Kind {
	case Refused, Backpressure, Rejected, WrongModel, Unauthorized, ServerError, Exhausted:
		return false
	}
	return !f.StaleConnection
}

// IsRetryableHere reports whether the same backend may be asked once more where no other is left.
func (f *Failure) IsRetryableHere() bool { return f.ReusedConnection || f.Kind == Silent }

// Class is what a call's outcome says about the health of its backend.
type Class uint8

// The four classes. Only faults count against a backend.
const (
	ClassSuccess Class = iota
	ClassFault
	ClassBusy    // shift load, do not blame
	ClassNeutral // says nothing
)

// Classify maps the outcome of a call to its class: nil and a rejected request
// are signs of life, a full backend is busy, a client that left says nothing. Nor does a
// backend that is taken to hang: the pool knows, and finds out sooner that it is well again.
func Classify(err error) Class {
	if err == nil {
		return ClassSuccess
	}
	var f *Failure
	if !errors.As(err, &f) || f.StaleConnection {
		return ClassNeutral
	}
	switch f.Kind {
	case Rejected:
		return ClassSuccess
	case Backpressure:
		return ClassBusy
	case TooLarge, ClientGone, Expired, Exhausted, Silent:
		return ClassNeutral
	}
	return ClassFault
}

// ErrFirstByte and ErrStalled are the causes with which a call's own timers
// cancel it.
var (
	ErrFirstByte = errors.New("no first byte in time")
	ErrStalled   = errors.New("no next chunk in time")
)

// ErrBody marks a body that is not what its headers promise.
var ErrBody = errors.New("unusable response body")
