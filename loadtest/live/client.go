package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/answer"
)

// maxInFlight bounds the requests under way. What comes beyond is not sent, and
// counted as failed: the run has left what one client can do.
const maxInFlight = 20_000

// clientFull is the detail of what was not sent.
const clientFull = "client_full"

// maxRefusal is how much of an error's body is read, so that its connection can
// be used again.
const maxRefusal = 64 << 10

// client sends requests to the replicas in turn, as a load balancer would.
type client struct {
	model     string
	key       string // bearer; "" is none
	clock     clock
	deadline  time.Duration // the wall's time
	endpoints []endpoint
	next      atomic.Uint64
	inFlight  atomic.Int64
}

// endpoint is one replica with the connections to it.
type endpoint struct {
	url       string
	transport *http.Transport
}

func newClient(o *Options, bases []string) *client {
	c := &client{model: routeModel, key: o.Key, deadline: o.Scenario.Deadline}
	if o.Model != "" {
		c.model = o.Model
	}
	for _, base := range bases {
		c.endpoints = append(c.endpoints, endpoint{base + "/v1/chat/completions", &http.Transport{
			MaxIdleConns: maxInFlight, MaxIdleConnsPerHost: maxInFlight, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true, ReadBufferSize: 8 << 10, WriteBufferSize: 16 << 10,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
		}})
	}
	return c
}

// begin starts the client's clock.
func (c *client) begin(scale float64) {
	c.clock = clock{time.Now(), scale}
	c.deadline = c.clock.wall(c.deadline)
}

// close lets go of the connections.
func (c *client) close() {
	for _, d := range c.endpoints {
		d.transport.CloseIdleConnections()
	}
}

// send sends one request whose body was made before, and waits for the answer's
// end. It fills in the outcome and returns the answer's text.
func (c *client) send(ctx context.Context, q *loadtest.Request, body []byte, out *loadtest.Outcome) string {
	defer func() { out.Done = max(c.clock.now(), out.At) }()
	if c.inFlight.Add(1) > maxInFlight {
		c.inFlight.Add(-1)
		out.End, out.Detail = loadtest.Failed, clientFull
		return ""
	}
	defer c.inFlight.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	d := &c.endpoints[c.next.Add(1)%uint64(len(c.endpoints))]
	req, err := c.request(ctx, d, q, body)
	if err != nil {
		out.End, out.Detail = loadtest.Failed, "bad_url"
		return ""
	}
	resp, err := d.transport.RoundTrip(req) // no redirects, no cookies: what is asked is what is measured
	if err != nil {
		out.End, out.Detail = loadtest.Failed, trouble(ctx, err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is cut on purpose
	if resp.StatusCode != http.StatusOK {
		refusal(resp, out)
		return ""
	}
	return c.read(ctx, resp, out)
}

// request builds the HTTP request.
func (c *client) request(ctx context.Context, d *endpoint, q *loadtest.Request, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h["Content-Type"] = []string{"application/json"}
	for name, value := range map[string]string{"X-Tenant-Id": q.Tenant, "X-Priority": q.Priority, "X-Rag-Hash": q.RAGHash} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	if c.key != "" {
		h["Authorization"] = []string{"Bearer " + c.key}
	}
	return req, nil
}

// read takes the answer in.
func (c *client) read(ctx context.Context, resp *http.Response, out *loadtest.Outcome) string {
	a := answer.Answer{OnText: func(piece int) {
		if piece == 1 {
			out.First = c.clock.now()
		}
	}}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" is neither of them
	read, whole := a.Whole, func() bool { return a.Choices > 0 }
	if kind == "text/event-stream" {
		read, whole = a.Stream, func() bool { return a.Dones > 0 }
	}
	err := read(resp.Body)
	fill(out, &a)
	from := strings.ToLower(resp.Header.Get("X-Cache"))
	out.Cached, out.Coalesced = strings.HasPrefix(from, "hit"), strings.HasPrefix(from, "coalesced")
	switch {
	case a.Failed != "":
		out.End, out.Detail = loadtest.Broken, "error_event"
	case err != nil:
		out.End, out.Detail = loadtest.Broken, trouble(ctx, err)
	case !whole():
		out.End, out.Detail = loadtest.Broken, noDone
	default:
		out.End = loadtest.Answered
		return a.Text.String()
	}
	return ""
}

// fill writes into out what the answer says of itself. Tokens of a server that is
// no gateway are the target's.
func fill(out *loadtest.Outcome, a *answer.Answer) {
	if u := a.Usage; u != nil {
		out.PromptTokens, out.TargetTokens = u.Prompt, u.Completion
	}
	if x := a.Gateway; x != nil {
		out.Tier, out.Acceptance, out.Reason = x.Tier, x.Acceptance, x.Reason
		out.DraftTokens, out.TargetTokens = x.Accepted, x.Target
	}
}

// noDone is the detail of an answer that ended before it was whole.
const noDone = "no_done"

// refusal says what an error status means.
func refusal(resp *http.Response, out *loadtest.Outcome) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal)) // its words are for people
	reason := resp.Header.Get("X-Shed-Reason")
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && reason != "":
		out.End = loadtest.Shed
		out.Detail, _, _ = strings.Cut(reason, ";")
	case resp.StatusCode == http.StatusTooManyRequests:
		out.End, out.Detail = loadtest.Limited, "http_429"
	default:
		out.End, out.Detail = loadtest.Failed, "http_"+strconv.Itoa(resp.StatusCode)
	}
}

// trouble names an error in one of few words.
func trouble(ctx context.Context, err error) string {
	for _, known := range []error{answer.ErrLongLine, answer.ErrBadJSON} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "timeout"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "connect"
	}
	if errors.Is(err, io.EOF) {
		return noDone
	}
	return "cut" // the connection ended
}
