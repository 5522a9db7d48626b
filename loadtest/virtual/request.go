package virtual

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// request is one request of the load, and the client that waits for its answer.
type request struct {
	engines.Request
	lab    *lab
	req    *loadtest.Request
	body   *openai.Request
	record tiers.Record
	out    loadtest.Outcome
	era    int // of the draft, when it came
	users  int // the client, and audits
}

var _ tiers.Sink = (*request)(nil)

// send sends a request to a replica and returns the answer's text when the client has it, "" when there
// is none.
func (l *lab) send(q *loadtest.Request) string {
	r := &request{lab: l, req: q, body: bodyOf(q)}
	r.Prompt = l.prompts.render(q.Messages)
	to := l.replicas[l.sent%len(l.replicas)]
	l.sent++
	number := l.sent
	r.out = loadtest.Outcome{
		Session: q.Session, Turn: q.Turn, Tenant: q.Tenant, Priority: q.Priority, At: l.clock.Elapsed(), PromptTokens: len(r.Prompt),
	}
	released := r.Retain()
	ctx, cancel := l.clock.WithTimeout(engines.Answering(context.Background()), l.scenario.Deadline)
	defer cancel()
	_ = l.clock.Sleep(ctx, hop) // on the way to the gateway; who leaves meanwhile is told next
	r.era = l.era
	own, tier := to.routeOf(r)
	if share := l.spec.Router; share > 0 {
		tier = l.routed(share, number)
	}
	err := to.pipeline.Answer(ctx, tiers.Arrival{
		Metadata: &tiers.Metadata{
			Identity: dispatch.Identity{ID: strconv.Itoa(number)}, Began: l.clock.Now(), Caller: identity.Caller{Tenant: q.Tenant, Priority: class(q.Priority), RAGHash: q.RAGHash},
		},
		Body: r.body, Route: own, Demand: plan.Demand{Tier: tier}, Retain: r.Retain,
	}, r, &r.record)
	r.End()
	text := r.settle(err, context.Cause(ctx))
	released()
	l.sleep(r.out.Done - l.clock.Elapsed())
	l.book(r)
	return text
}

// bodyOf is a request as the gateway reads it.
func bodyOf(q *loadtest.Request) *openai.Request {
	b := append(make([]byte, 0, 1024), `{"model":"`+route+`","messages":[`...)
	for i, m := range q.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(openai.AppendQuote(append(b, `{"role":`...), m.Role), `,"content":`...)
		b = append(openai.AppendQuote(b, m.Content), '}')
	}
	b = strconv.AppendFloat(append(b, `],"temperature":`...), q.Temperature, 'g', -1, 64)
	b = strconv.AppendBool(append(b, `,"stream":`...), q.Stream)
	if q.MaxTokens > 0 {
		b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(q.MaxTokens), 10)
	}
	if q.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	r, err := openai.Scan(openai.Chat, append(b, '}'), openai.DefaultLimits())
	if err != nil {
		panic(err) // it was written here
	}
	return r
}

// Retain says that somebody uses the request, until it is released.
func (r *request) Retain() (released func()) {
	r.lab.requests[r.body] = r
	r.users++
	return func() {
		if r.users--; r.users == 0 {
			delete(r.lab.requests, r.body)
		}
	}
}

// Begin implements [tiers.Sink].
func (r *request) Begin(h tiers.ResponseHead) error {
	if h.Stream {
		r.out.First = r.lab.clock.Elapsed() + 2*hop
	}
	return nil
}

// Write implements [tiers.Sink]: the client reads as fast as it is written to.
func (r *request) Write([]byte) error { return nil }

// settle fills in the outcome of a request that was answered, or failed with err; left is why the client
// went, nil where it did not.
func (r *request) settle(err, left error) (text string) {
	l := r.lab
	now := l.clock.Elapsed()
	r.out.Done = now + hop
	switch {
	case left != nil:
		r.out.Done = min(now, r.out.At+l.scenario.Deadline) + hop
		r.out.End, r.out.Detail = loadtest.Failed, "timeout"
		if r.out.First > 0 {
			r.out.End = loadtest.Broken
		}
		return ""
	case err != nil:
		r.failed(err)
		return ""
	}
	r.out.End = loadtest.Answered
	if r.out.Done += hop; !r.req.Stream {
		r.out.First = r.out.Done
	}
	if r.record.Entry != nil {
		return r.recordShared()
	}
	return r.answered()
}

// failed books what the client of a request that failed is told.
func (r *request) failed(err error) {
	r.out.End, r.out.Detail = loadtest.Failed, "http_502"
	f, _ := errors.AsType[*engine.Failure](err)
	_, broken := errors.AsType[*tiers.BrokenError](err)
	switch {
	case errors.Is(err, admission.ErrShed):
		r.out.End, r.out.Detail = loadtest.Shed, ""
	case broken:
		r.out.End, r.out.Detail = loadtest.Broken, "broken"
	case f == nil:
		r.out.Detail = "http_503"
	case f.Kind == engine.Rejected:
		r.out.Detail = "http_400"
	case f.Kind == engine.Backpressure:
		r.out.Detail = "http_503"
	case f.Kind == engine.Timeout:
		r.out.Detail = "http_504"
	case f.Kind == engine.Expired:
		r.out.Detail = "timeout"
	}
}

// answered books an answer that was made for the request.
func (r *request) answered() (text string) {
	rc, out := r.record.Receipt, &r.out
	out.Acceptance, out.Reason = rc.Outcome()
	out.Tier, out.DraftTokens, out.TargetTokens = string(rc.Tier), rc.AcceptedTokens, rc.TargetTokens
	out.Drafted, out.Scored = rc.DraftedTokens, rc.ScoredTokens
	out.TargetChecked = slices.ContainsFunc(rc.Checks, func(c tiers.Check) bool { // and could say
		return c.Reason == accept.ReasonTargetAgrees || c.Reason == accept.ReasonTargetDisagrees
	})
	out.Unverified = rc.Tier == plan.Draft && !rc.Verdict.IsChecked()
	out.Drifted = r.era > 0
	r.lab.judge.Check(r.req, r.Prompt, r.Answer, out)
	return decode(r.Answer)
}

// recordShared books an answer that was made for another.
func (r *request) recordShared() (text string) {
	e, out := r.record.Entry, &r.out
	out.Coalesced = r.record.Cache == cache.ResultCoalesced
	out.Cached = !out.Coalesced
	out.Tier, out.DraftTokens, out.TargetTokens = e.Tier, e.Accepted, e.Target
	word, rest, _ := strings.Cut(e.Acceptance, ";reason=")
	out.Acceptance = word
	out.Reason, _, _ = strings.Cut(rest, ";")
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil {
		panic(err) // it was served
	}
	text = string(whole.Choices[0].Text)
	if out.Checked, out.Identical = true, true; e.Tier != string(plan.Target) {
		r.lab.judge.CheckText(r.req, text, out)
	}
	return text
}

// book notes the outcome when the client has it.
func (l *lab) book(r *request) {
	l.recorder.Add(r.out)
	if enough := l.scenario.Enough; enough != nil && enough(r.out) {
		l.enough = true
	}
	if r.out.End != loadtest.Answered {
		return
	}
	l.last = max(l.last, l.clock.Elapsed())
}

// class is the priority that a scenario names; without one it is normal.
func class(priority string) identity.Priority {
	p, err := identity.ParsePriority(priority)
	if err != nil {
		return identity.Normal
	}
	return p
}
