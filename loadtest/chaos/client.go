package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/answer"
)

// What became of a request. Whatever is not one of the first three is an error of its
// own kind; http_NNN (a refusal that is none of them) is one too.
const (
	Answered = "answered"
	Limited  = "limited" // 429
	Shed     = "shed"    // 503 with X-Shed-Reason

	Unreached  = "connect"          // nobody took the connection
	TimedOut   = "timeout"          // the client's patience ended
	ErrorEvent = "error_event"      // the stream told of an error and was cut
	CutSilent  = "cut_silently"     // the connection ended and no error was told
	DoneLies   = "done_after_error" // [DONE] came after an error
	Twice      = "twice"            // more than one end, or the answer to another request
	Unfinished = "no_finish"        // [DONE], but no finish_reason or no text
	Garbled    = "garbled"          // not what the API says
	Left       = "left"             // the client hung up, as its request says
)

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions" // continuations and probes

	messagesOverloaded = 529     // the status of the API Messages where others have 503
	maxAnswer          = 1 << 20 // bytes of an answer's text that are kept
)

// Request is one that a client sends.
type Request struct {
	Tenant   string     // one of [Tenants], whose key is sent; "" sends none
	Priority string     // high, normal, low; "" sends none
	API      answer.API // "" is chat completions
	Stream   bool
	Leave    time.Duration // after which the client hangs up; 0 is never
	Tokens   int           // max_tokens
	Prompt   string        // "" is a short one, different each time
	Header   http.Header
	Fields   map[string]any  // more of the body, or instead of what it has
	Body     []byte          // all of it, instead of what the above make; nil is not given
	OnText   func(chunk int) // of a stream: called after each piece of text, from 1 on
}

// Outcome is what became of one.
type Outcome struct {
	Kind      string
	Detail    string // of an error
	Phase     string // in which it was sent
	Gateway   int
	API       answer.API
	Stream    bool
	Class     string // its priority
	Tier      string // that it demanded; "" is none
	Prompt    string // that it asked; "" is one of its own
	MaxTokens int    // tokens that it asked for
	At        time.Time
	First     time.Duration // from when it was due to the first byte of the answer's body
	Total     time.Duration // to its end
	Silence   time.Duration // the longest between two pieces of a stream's text
	Text      string        // of the answer, as far as it came
	Tokens    int           // that its usage tells; 0 is none
	Header    http.Header   // of the answer; nil when there was none
	Answer    *answer.Answer
}

// Client sends requests and says what became of each. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	name   string // begins its requests' ids: no two clients send the same prompt by chance
	serial atomic.Int64
}

// NewClient makes one that waits so long for an answer and keeps as many connections as it may have requests under way.
func NewClient(name string, patience time.Duration, inFlight int, idle time.Duration) *Client {
	asIs := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{name: name, http: &http.Client{Timeout: patience, CheckRedirect: asIs, Transport: &http.Transport{
		MaxIdleConnsPerHost: inFlight, DisableCompression: true, IdleConnTimeout: idle,
		DialContext: (&net.Dialer{Timeout: patience}).DialContext, ReadBufferSize: 8 << 10, WriteBufferSize: 16 << 10,
	}}}
}

// Close lets go of the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// body is the request as JSON.
func (r *Request) body(client string, n int) []byte {
	if r.Body != nil {
		return r.Body
	}
	prompt := r.Prompt
	if prompt == "" {
		prompt = fmt.Sprintf("Question %d of %s: what is the colour of the sky over a harbour?", n, client)
	}
	b := map[string]any{"model": RouteModel, "stream": r.Stream, "temperature": 0}
	if r.API == answer.Responses {
		b["input"], b["max_output_tokens"] = prompt, r.Tokens
	} else {
		b["messages"], b["max_tokens"] = []map[string]string{{"role": "user", "content": prompt}}, r.Tokens
	}
	maps.Copy(b, r.Fields)
	text, _ := json.Marshal(b) //nolint:errchkjson // strings and numbers
	return text
}

// paths are where the APIs are.
var paths = map[answer.API]string{"": chatPath, answer.Responses: "/v1/responses", answer.Messages: "/v1/messages"}

// Do sends request number n to a base URL and waits for the answer's end.
func (c *Client) Do(ctx context.Context, base string, n int, r *Request) (o Outcome) {
	id := fmt.Sprintf("chaos-%s-%d-%d", c.name, n, c.serial.Add(1))
	o = Outcome{
		API: r.API, Stream: r.Stream, Class: r.Priority, Tier: r.Header.Get("X-Tier"), Prompt: r.Prompt, MaxTokens: r.Tokens, At: time.Now(),
	}
	defer func() { o.Total = time.Since(o.At) }()
	if r.Leave > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Leave)
		defer cancel()
		defer func() { o.left(ctx.Err()) }()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+paths[r.API], bytes.NewReader(r.body(c.name, n)))
	if err != nil {
		o.Kind, o.Detail = Unreached, err.Error()
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	if r.Tenant != "" {
		req.Header.Set("Authorization", "Bearer "+Key(r.Tenant))
	}
	if r.Priority != "" {
		req.Header.Set("X-Priority", r.Priority)
	}
	maps.Copy(req.Header, r.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		o.Kind, o.Detail = trouble(err, Unreached), err.Error()
		return o
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	o.read(r, resp)
	if told := resp.Header.Get("X-Request-Id"); r.Body == nil && o.Kind == Answered && told != id && told != "" {
		o.Kind, o.Detail = Twice, "the answer has the id "+told
	}
	return o
}

// left says that the client hung up, where that explains what came.
func (o *Outcome) left(err error) {
	if err != nil && (o.Kind == Unreached || o.Kind == TimedOut || o.Kind == CutSilent) {
		o.Kind, o.Detail = Left, ""
	}
}

// read reads an answer and names what became of it.
func (o *Outcome) read(r *Request, resp *http.Response) {
	a := &answer.Answer{API: r.API, OnStart: func() { o.First = time.Since(o.At) }, OnText: r.OnText, MaxText: maxAnswer}
	o.Header, o.Answer = resp.Header, a
	switch {
	case resp.StatusCode != http.StatusOK:
		o.Kind, o.Detail = refusal(resp)
	case r.Stream:
		o.Kind, o.Detail = readStream(a, resp.Body)
	default:
		o.Kind, o.Detail = readWhole(a, resp.Body)
	}
	o.Text, o.Tokens, o.Silence = a.Text.String(), tokens(a), a.Silence
}

// refusal names a status that is not 200.
func refusal(resp *http.Response) (kind, detail string) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of it, so that the connection can be used again
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		kind = Limited
	case (resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == messagesOverloaded) && resp.Header.Get("X-Shed-Reason") != "":
		kind = Shed
	default:
		kind = fmt.Sprintf("http_%d", resp.StatusCode)
	}
	return kind, strings.TrimSpace(string(text))
}

// trouble names an error of the connection; usual is its kind when it is no time-out.
func trouble(err error, usual string) string {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return TimedOut
	}
	return usual
}
