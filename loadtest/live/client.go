package live

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/chaos"
)

const (
	// maxInFlight bounds the requests under way. What comes beyond is not sent, and
	// counted as failed: the run has left what one client can do.
	maxInFlight = 20_000
	clientFull  = "client_full" // the detail of what was not sent

	connectionIdle = 30 * time.Second
)

// client sends requests to the replicas in turn, as a load balancer would.
type client struct {
	*chaos.Client
	model    string
	key      string // bearer; "" is none
	clock    clock
	bases    []string
	next     atomic.Uint64
	inFlight atomic.Int64
}

// newClient starts the client's clock, too.
func newClient(o *Options, bases []string) *client {
	c := &client{model: o.Model, key: o.Key, bases: bases, clock: clock{time.Now(), o.Scenario.TimeScale}}
	if c.model == "" {
		c.model = routeModel
	}
	c.Client = chaos.NewClient("live", c.clock.wall(o.Scenario.Deadline), maxInFlight, connectionIdle)
	return c
}

// body is a request as JSON, which is made before its time.
func (c *client) body(q *loadtest.Request) []byte {
	b := map[string]any{"model": c.model, "messages": q.Messages, "temperature": q.Temperature}
	if q.MaxTokens > 0 {
		b["max_tokens"] = q.MaxTokens
	}
	if q.IgnoreEOS {
		b["ignore_eos"] = true
	}
	if q.Stream {
		b["stream"], b["stream_options"] = true, map[string]any{"include_usage": true}
	}
	text, _ := json.Marshal(b) //nolint:errchkjson // texts and numbers
	return text
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
	header := http.Header{}
	for name, value := range map[string]string{"X-Tenant-Id": q.Tenant, "X-Priority": q.Priority, "X-Rag-Hash": q.RAGHash} {
		if value != "" {
			header[name] = []string{value}
		}
	}
	if c.key != "" {
		header.Set("Authorization", "Bearer "+c.key)
	}
	o := c.Do(ctx, c.bases[c.next.Add(1)%uint64(len(c.bases))], 0, &chaos.Request{Body: body, Header: header, Stream: q.Stream, OnText: func(piece int) {
		if piece == 1 {
			out.First = c.clock.now()
		}
	}})
	return settle(&o, out)
}

// settle says in out what came of a request, and returns the text of an answer.
func settle(o *chaos.Outcome, out *loadtest.Outcome) string {
	if o.Answer != nil {
		fill(out, o.Answer)
	}
	from := strings.ToLower(o.Header.Get("X-Cache"))
	out.Cached, out.Coalesced = strings.HasPrefix(from, "hit"), strings.HasPrefix(from, "coalesced")
	out.End, out.Detail = loadtest.Broken, o.Kind
	switch {
	case o.Kind == chaos.Answered:
		out.End, out.Detail = loadtest.Answered, ""
		return o.Text
	case o.Kind == chaos.Limited:
		out.End = loadtest.Limited
	case o.Kind == chaos.Shed:
		out.End = loadtest.Shed
		out.Detail, _, _ = strings.Cut(o.Header.Get("X-Shed-Reason"), ";")
	case o.Header == nil, strings.HasPrefix(o.Kind, "http_"):
		out.End = loadtest.Failed
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
