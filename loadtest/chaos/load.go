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
	"slices"
	"strings"
	"sync"
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

// Phases of a row.
const (
	Before = "before" // nothing is wrong
	During = "during" // from the fault's beginning until all is as before
	After  = "after"
)

const (
	clientPatience = 20 * time.Second // with one request
	maxInFlight    = 512              // requests of a load at once; more are not sent, and counted
	patience       = 10 * time.Second // for what comes at once
	maxAnswer      = 1 << 20          // bytes of an answer's text that are kept
)

// Request is one that a load sends.
type Request struct {
	Tenant   string     // one of [Tenants]
	Priority string     // high, normal, low; "" sends none
	API      answer.API // "" is chat completions
	Stream   bool
	Leave    time.Duration // after which the client hangs up; 0 is never
	Tokens   int           // max_tokens
	Prompt   string        // "" is a short one, different each time
	Header   http.Header
	Fields   map[string]any  // more of the body, or instead of what it has
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
}

// Load sends requests at a steady rate, whatever is outstanding, to the gateways in
// turn, and keeps what became of each. Start it with [Testbed.StartLoad].
type Load struct {
	gateways func() []*Gateway
	rate     float64
	next     func(n int) Request
	take     func(o *Outcome) // is told of each outcome, which is not kept; nil: all are kept
	maximum  int64            // requests under way at once
	client   *http.Client
	phase    atomic.Pointer[string]
	paused   atomic.Bool
	tries    atomic.Int32 // other gateways that what is refused is tried at, see Testbed.Balance
	refused  atomic.Int64 // connections that were
	inFlight atomic.Int64
	sent     atomic.Int64
	number   int          // of the load in its world: no two send the same prompt by chance
	serial   atomic.Int64 // of requests, for their ids

	mu       sync.Mutex
	outcomes []Outcome

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// usualLoad is streams and JSON by turns, three priorities, two tenants.
func usualLoad(n int) Request {
	return Request{
		Tenant: Tenants[n%2], Priority: [...]string{"high", "normal", "low"}[n/3%3], Stream: n/2%2 == 0, Tokens: 12,
	}
}

// StartLoad sends rate requests a second as next says (nil: streams and JSON, three
// priorities, two tenants) until [Load.Stop]. The world's own load is w.Load; a row may
// have more.
func (w *Testbed) StartLoad(rate float64, next func(n int) Request) *Load {
	if next == nil {
		next = usualLoad
	}
	l := w.NewLoad()
	ctx, cancel := context.WithCancel(context.Background())
	l.rate, l.next, l.cancel = rate, next, cancel
	l.running.Go(func() { l.run(ctx) })
	return l
}

// NewLoad is a load that sends nothing by itself, for rows that send all by [Load.Send] and
// keep what is to count with [Load.Keep].
func (w *Testbed) NewLoad() *Load {
	w.started++
	l := &Load{
		gateways: func() []*Gateway { return w.Gateways }, number: w.started, cancel: func() {}, maximum: maxInFlight,
		client: &http.Client{Timeout: clientPatience, Transport: transport(maxInFlight, 30*time.Second)},
	}
	l.tries.Store(int32(w.tries)) //nolint:gosec // a handful
	l.Phase(Before)
	w.loads = append(w.loads, l)
	return l
}

// transport keeps a connection for each request under way, and for a while after it.
func transport(inFlight int, idle time.Duration) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: inFlight, DisableCompression: true, IdleConnTimeout: idle}
}

// Phase marks what is sent from here on.
func (l *Load) Phase(name string) { l.phase.Store(&name) }

// Pause keeps the load from sending, or ends that.
func (l *Load) Pause(paused bool) { l.paused.Store(paused) }

// Sent is how many requests were sent so far.
func (l *Load) Sent() int { return int(l.sent.Load()) }

// Stop sends no more, waits for what is under way and closes the connections.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
	l.client.CloseIdleConnections()
}

func (l *Load) run(ctx context.Context) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / l.rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.paused.Load() {
			l.dispatch(n)
		}
	}
}

// dispatch sends request n and does not wait for its answer.
func (l *Load) dispatch(n int) {
	g := l.turn(n)
	if l.inFlight.Add(1) > l.maximum || g == nil {
		l.inFlight.Add(-1)
		l.Keep(Outcome{Kind: Unreached, Detail: "the client is full, or no gateway takes requests", Phase: *l.phase.Load(), At: time.Now()})
		return
	}
	l.running.Go(func() { // the wait for it is what Stop does
		defer l.inFlight.Add(-1)
		l.Keep(l.balanced(g, n, l.next(n)))
	})
}

// turn is the gateway whose turn it is, of those that a load balancer would ask.
func (l *Load) turn(n int) *Gateway {
	all := l.gateways()
	for i := range all {
		if g := all[(n+i)%len(all)]; !g.OutOfTurn.Load() {
			return g
		}
	}
	return nil
}

// Keep puts an outcome among the load's.
func (l *Load) Keep(o Outcome) {
	l.sent.Add(1)
	if l.take != nil {
		l.take(&o)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
}

// Outcomes are those of the phases named, or all; of finished requests only.
func (l *Load) Outcomes(phases ...string) (out []Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.outcomes {
		if len(phases) == 0 || slices.Contains(phases, o.Phase) {
			out = append(out, o)
		}
	}
	return out
}

// Send sends one request to a gateway, beside what the load sends, and tells what became
// of it; it is not among the load's outcomes.
func (l *Load) Send(g *Gateway, r Request) Outcome { return l.send(g, int(time.Now().UnixNano()), r) }

// body is the request as JSON.
func (r *Request) body(load, n int) []byte {
	prompt := r.Prompt
	if prompt == "" {
		prompt = fmt.Sprintf("Question %d of %d: what is the colour of the sky over a harbour?", n, load)
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

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions" // continuations and probes
)

// paths are where the APIs are.
var paths = map[answer.API]string{"": chatPath, answer.Responses: "/v1/responses", answer.Messages: "/v1/messages"}

// send sends one request and waits for the answer's end.
func (l *Load) send(g *Gateway, n int, r Request) (o Outcome) {
	id := fmt.Sprintf("chaos-%d-%d-%d", l.number, n, l.serial.Add(1))
	o = Outcome{
		Phase: *l.phase.Load(), Gateway: g.Number, API: r.API, Stream: r.Stream, Class: r.Priority, Tier: r.Header.Get("X-Tier"),
		Prompt: r.Prompt, MaxTokens: r.Tokens, At: time.Now(),
	}
	defer func() { o.Total = time.Since(o.At) }()
	ctx := context.Background() // the client has a time limit
	if r.Leave > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Leave)
		defer cancel()
		defer func() { o.left(ctx.Err()) }()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Base()+paths[r.API], bytes.NewReader(r.body(l.number, n)))
	if err != nil {
		o.Kind, o.Detail = Unreached, err.Error()
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+Key(r.Tenant))
	req.Header.Set("X-Request-Id", id)
	if r.Priority != "" {
		req.Header.Set("X-Priority", r.Priority)
	}
	maps.Copy(req.Header, r.Header)
	resp, err := l.client.Do(req)
	if err != nil {
		o.Kind, o.Detail = trouble(err, Unreached), err.Error()
		return o
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	l.read(&o, &r, resp)
	if o.Kind == Answered && resp.Header.Get("X-Request-Id") != id {
		o.Kind, o.Detail = Twice, "the answer has the id "+resp.Header.Get("X-Request-Id")
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
func (l *Load) read(o *Outcome, r *Request, resp *http.Response) {
	o.Header = resp.Header
	a := &answer.Answer{API: r.API, OnStart: func() { o.First = time.Since(o.At) }, OnText: r.OnText, MaxText: maxAnswer}
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
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is of it
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		kind = Limited
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("X-Shed-Reason") != "":
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
