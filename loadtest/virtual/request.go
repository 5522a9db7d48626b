package virtual

import (
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/prefix"
)

// request is one request on its way through a replica.
type request struct {
	lab     *lab
	replica *replica
	req     *loadtest.Request
	shape   *openai.Request // as the gateway's scan would see it
	plan    plan.Plan
	cfg     plan.Config // by which its draft is judged
	views   plan.Views  // that it was planned by in an audited mode
	trial   *plan.Trial // how it is judged there; nil in others
	era     int         // of the draft, when it was planned
	prompt  []int32
	out     loadtest.Outcome
	ids     []int32 // of the answer, the end token included
	call    *call
	began   time.Duration // when it went to a tier
	over    bool          // the client has its answer, or has left
	key     cache.Key     // where answers are kept
	flight  *flight       // the generation that it shares with others; nil is none
	done    func(text string)
	release func() // lets the client's deadline forget the request

	before      func() bool    // of a question to the target that has a place: whether it is still wanted; nil is yes
	check       *call          // the question to the target that is under way; nil is none
	bucket      economy.Bucket // of what is learned of it
	learns      bool           // it might have been drafted
	asked       time.Duration  // when the target was asked for the answer, or for its rest
	targetFirst time.Duration  // how long its first token took
	takeovers   int            // backends that were lost in mid-answer
}

// mostTakeovers bounds how often one answer is carried on with elsewhere, as the gateway
// does.
const mostTakeovers = 3

// send brings a request to a replica; done is told the answer's text, "" when there
// is none.
func (l *lab) send(q *loadtest.Request, at time.Duration, done func(text string)) {
	r := &request{lab: l, replica: l.replicas[l.sent%len(l.replicas)], req: q, done: done}
	l.sent++
	r.prompt = l.prompts.render(q.Messages)
	r.out = loadtest.Outcome{
		Session: q.Session, Turn: q.Turn, Tenant: q.Tenant, Priority: q.Priority, At: at, PromptTokens: len(r.prompt),
	}
	r.shape = shapeOf(q)
	l.clock.after(hop, r.enter)
	total := l.values.Tiers.Timeouts.Deadline(r.shape.PromptTokens, r.shape.MaxTokens)
	l.clock.after(min(l.scenario.Deadline, total), r.patience())
}

// shapeOf is a request as the gateway's scan would see it.
func shapeOf(q *loadtest.Request) *openai.Request {
	s := &openai.Request{
		Kind: openai.Chat, Model: route, Stream: q.Stream, MaxTokens: -1, N: 1, Temperature: q.Temperature, SinglePlain: true,
	}
	if q.MaxTokens > 0 {
		s.MaxTokens = q.MaxTokens
	}
	for _, m := range q.Messages {
		s.PromptBytes += len(m.Content)
	}
	s.PromptTokens = openai.EstimateTokens(max(s.PromptBytes, 1))
	return s
}

// patience is what happens at the client's deadline, or at the gateway's where that is sooner. The event outlives the request
// by minutes, so it must not hold it.
func (r *request) patience() func() {
	waiting := r
	r.release = func() { waiting = nil }
	return func() {
		if waiting != nil {
			waiting.giveUp()
		}
	}
}

// giveUp is the client's patience at its end.
func (r *request) giveUp() {
	if r.over {
		return
	}
	end := loadtest.Failed
	if r.out.First > 0 {
		end = loadtest.Broken
	}
	r.leave()
	r.book(end, "timeout")
}

// enter is the gateway's front: the cache, where it is on, or off to a tier.
func (r *request) enter() {
	if !r.lab.values.Cache.On {
		r.dispatch()
		return
	}
	r.key = r.cacheKey()
	r.lab.clock.after(hop, r.look)
}

// dispatch is plan, admission, and off to the first tier.
func (r *request) dispatch() {
	if r.orphan() {
		return
	}
	r.began = r.lab.clock.now
	r.think()
	r.out.Acceptance, r.out.Reason = "bypassed", r.plan.Reason
	if r.trial != nil && r.trial.Shadow {
		r.shadow()
	}
	switch {
	case r.plan.Judged:
		r.audit()
		if r.plan.Block > 0 {
			r.pingPong()
			return
		}
		r.speculate()
	default:
		r.direct()
	}
}

// firstByte scales a first-byte time-out with the prompt, as the gateway does.
func (r *request) firstByte(base time.Duration) time.Duration {
	return plan.FirstByte(base, r.shape.PromptTokens)
}

// head is what the prompt begins with, as the gateway finds it in a body.
func (r *request) head() prefix.Head {
	h := prefix.Head{Tenant: r.req.Tenant, RAG: r.req.RAGHash}
	for _, m := range r.req.Messages {
		if m.Role != "system" {
			h.First = []byte(m.Content)
			break
		}
		h.System = append(h.System, m.Content...)
	}
	return h
}

// newCall prepares a call to a tier.
func (r *request) newCall(tier plan.Tier, prompt []int32, limit int) *call {
	r.call = &call{
		request: r, tier: r.lab.tiers[string(tier)], demand: plan.DemandOf(r.shape, r.head()), prompt: prompt, limit: limit,
		stream: true, attempts: 1 + r.lab.values.Tiers.RetryAttempts,
	}
	return r.call
}

// direct asks the target alone.
func (r *request) direct() {
	c := r.newCall(plan.Target, r.prompt, r.req.MaxTokens)
	c.stream = r.req.Stream
	c.demand.Whole = !c.stream
	c.patience = r.lab.values.Tiers.Timeouts.DirectFirstByte(plan.Target, r.shape)
	r.out.Tier = "target"
	c.onFail = func(f failure, began bool) { r.lose(f, began) }
	r.follow(c)
}

// follow lets the target's tokens be the answer, or the rest of it. Where it is lost in
// mid-answer another backend carries on.
func (r *request) follow(c *call) {
	r.asked = r.lab.clock.now
	c.onToken = func(_ *attempt, id int32, done bool) {
		if r.targetFirst == 0 {
			r.targetFirst = r.lab.clock.now - r.asked
		}
		r.ids = append(r.ids, id)
		r.out.TargetTokens++
		if r.req.Stream {
			r.first()
		}
		if done {
			r.finish(loadtest.Answered, "")
		}
	}
	kept := len(r.ids)
	before := r.out.TargetTokens
	c.onRetry = func() { r.ids, r.out.TargetTokens = r.ids[:kept], before }
	fail := c.onFail
	c.onFail = func(f failure, began bool) {
		if began && r.out.First > 0 && f.retryable() && r.lab.values.Tiers.Takeover && r.takeovers < mostTakeovers {
			r.takeovers++
			r.continueAt("")
			return
		}
		fail(f, began)
	}
	c.start()
}

// continueAt lets the target carry on behind what there is of the answer; warm is the
// backend that has computed it, "" where none has.
func (r *request) continueAt(warm string) {
	rest := r.req.MaxTokens
	if rest > 0 {
		if rest -= len(r.ids); rest <= 0 {
			r.finish(loadtest.Answered, "")
			return
		}
	}
	c := r.newCall(plan.Target, slices.Concat(r.prompt, r.ids), rest)
	c.demand.PromptTokens, c.demand.PromptBytes, c.demand.Warm = len(c.prompt), 0, warm
	c.patience = r.firstByte(r.lab.values.Tiers.Timeouts.TargetFirstByte)
	c.must = r.out.First > 0 && r.takeovers == 0
	c.onFail = r.stranded
	r.follow(c)
}

// stranded is a continuation that no target gave, or that broke off. While nothing
// was sent, an answer from the target alone is as good, unless there is no target.
func (r *request) stranded(f failure, began bool) {
	if r.out.First > 0 || f.detail == "no_backend" || f.shed {
		r.lose(f, began || r.out.First > 0)
		return
	}
	r.ids, r.out.DraftTokens, r.out.TargetTokens = r.ids[:0], 0, 0
	r.direct()
}

// first notes when the client sees the first text.
func (r *request) first() {
	if r.out.First > 0 {
		return
	}
	r.out.First = r.lab.clock.now + 2*hop
	if r.req.Stream && r.leads() {
		r.flight.tell((*request).first)
	}
}

// lose ends a request that no backend answered.
func (r *request) lose(f failure, began bool) {
	end := loadtest.Failed
	if began {
		end = loadtest.Broken
	}
	detail := f.detail
	if f.shed {
		r.finish(loadtest.Shed, "")
		return
	}
	switch {
	case f.status == 400, f.status == 503:
		detail = fmt.Sprintf("http_%d", f.status)
	case detail == "timeout":
		detail = "http_504"
	default:
		detail = "http_502"
	}
	if began {
		detail = "broken"
	}
	r.finish(end, detail)
}

// finish ends the generation, for all who wait for it.
func (r *request) finish(end, detail string) {
	if r.orphan() {
		return
	}
	r.fund()
	if end == loadtest.Answered {
		r.out.Drifted = r.era > 0
		r.lab.judge.Check(r.req, r.prompt, r.ids, &r.out)
		r.learn()
	}
	r.share(end, detail)
	r.book(end, detail)
}

// book notes the outcome, a hop later at the client.
func (r *request) book(end, detail string) {
	if r.over {
		return
	}
	r.over = true
	r.release()
	l := r.lab
	r.out.End, r.out.Detail = end, detail
	r.out.Done = l.clock.now + hop
	if end == loadtest.Answered {
		r.out.Done += hop
		r.first()
		if !r.req.Stream {
			r.out.First = r.out.Done
		}
	}
	out := r.out // a generation that goes on for others changes it
	l.clock.at(out.Done, func() {
		l.recorder.Add(out)
		if end == loadtest.Answered && out.Done >= l.scenario.Warmup {
			l.answered.add(&out, r.plan.Whole)
		}
		text := ""
		if end == loadtest.Answered {
			l.last = max(l.last, l.clock.now)
			text = vllmsim.DefaultTokenizer().Decode(r.ids, true)
		}
		r.done(text)
	})
}
