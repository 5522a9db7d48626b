package tiers

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/world"
)

// Metadata is what is known of a request before its body is read.
type Metadata struct {
	dispatch.Identity // unique id, made by the gateway; trace headers for upstream calls, no header of the client
	Began             time.Time
	Caller            identity.Caller
	Retry             bool // its client marked it as a retry
	HasSlot           bool // it has one of its tenant's concurrent slots ([Pipeline.AcquireSlot])
}

// Arrival is a request as it arrives.
type Arrival struct {
	*Metadata
	Body         *openai.Request
	Route        *Route
	Demand       plan.Demand  // what it demands of its route
	CacheControl CacheControl // cache directives
	// Retain keeps the memory of the body until released is called; nil: it stays valid after the end of the request.
	Retain func() (released func())

	// Observe returns what receives the content of an answer that is made for the request, from its beginning. It is
	// called at each attempt at one; nil: nobody observes.
	Observe func() Observer
}

// Request is one request from its arrival to its end. It is for one goroutine, and for its audit afterwards, which only
// reads.
type Request struct {
	Arrival
	*Receipt // what was decided and done; nil before an answer is begun

	RAG    string        // digest of the retrieved context; "" if the client sent none
	Lookup time.Duration // of the look-up in the shared cache
	Salt   string        // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Config plan.Config   // the settings of its route at its arrival, with what it demands
	Facts  plan.Facts    // what its engines can do, as far as it is known at its arrival
	Plan   plan.Plan     // what settings and engines allow
	Views  plan.Views    // the evidence by which it was decided
	// Application is which of its tenant's applications it is of (package application); "" where neither audits nor settings
	// tell applications apart.
	Application     string
	ApplicationName string // the same as metrics name it: tenant/name, of the name that operators gave; else as Application
	Rejected        bool   // the target has rejected the last draft for the same request

	Draft  Pool // none where its Pool is nil
	Target Pool
	Prices func() economy.Prices // per token of these pools; nil: unknown
	Needs  pool.Demand           // what it needs of a backend

	*Services

	Served *draft.Draft // the draft that is the whole answer; nil for others
	phase  phase
}

// TokenPrices returns the prices of tokens at the request's pools; zero if unknown.
func (r *Request) TokenPrices() (p economy.Prices) {
	if r.Prices != nil {
		p = r.Prices()
	}
	return p
}

// Pool is one tier's pool with its engines' capabilities; nil: unknown.
type Pool struct {
	*pool.Pool
	Capabilities *probe.Capabilities
	Tier         plan.Tier
}

// CanContinue reports whether another backend of the pool can continue an answer from its text.
func (p Pool) CanContinue(r *openai.Request) bool {
	return plan.CanContinue(r, p.Capabilities, p.Engine())
}

// ContinueText returns the call that has an engine of the pool continue a text, and what is known of the answer to it.
func (p Pool) ContinueText(t engine.Terms, r *openai.Request, text []byte, maxTokens int) *engine.ContinueText {
	c := &engine.ContinueText{Terms: t, Request: r, Text: text, MaxTokens: maxTokens}
	if p.Capabilities != nil {
		c.Found, c.Probed = p.Capabilities.Continue, p.Capabilities.Engine
	}
	return c
}

// Purpose is the use of a random number. Draws for one purpose do not affect those for another.
type Purpose uint8

// The purposes.
const (
	DrawExplore Purpose = iota // whether a draft is made although it is not expected to pay
	DrawAudit                  // whether a draft is audited
)

// Services are shared by all requests of a cascade.
type Services struct {
	World         world.World
	Dispatch      *dispatch.Dispatcher
	Random        func(request string, p Purpose) float64 // draws from [0, 1)
	MaxBody       int64                                   // bytes of an answer
	ContextWindow func(pool string) int                   // a pool's context length in tokens; 0 while it is unknown

	metrics *metrics
	audits  *audit.Auditor

	bookAudit func(a *Metadata, route string, usd ledger.Nanos) // puts the cost of a request's audits into the books
}

// class returns the class of its priority: higher goes first.
func (r *Request) class() int8 { return int8(r.Caller.Priority) }

// Terms returns what the request sends to the engines of a pool with every call.
func (r *Request) Terms(p Pool) engine.Terms {
	t := engine.Terms{Model: p.Model(), Salt: r.Salt}
	if p.Priorities() {
		v := plan.EnginePriority(r.class())
		t.Priority = &v
	}
	return t
}

// FirstByteTimeout scales a first-byte timeout with the request's prompt.
func (r *Request) FirstByteTimeout(base time.Duration) time.Duration {
	return plan.FirstByte(base, r.Body.PromptTokens)
}

// Deadline returns the time limit of the request.
func (r *Request) Deadline() time.Duration {
	return r.Config.Timeouts.Deadline(r.Body.PromptTokens, plan.AnswerLimit(r.Body))
}

// DraftOptions returns how the drafts of the request are judged.
func (r *Request) DraftOptions() draft.Options {
	o := draft.Options{
		Request: r.Body, Config: &r.Config, Decision: &r.Decision, MaxBytes: r.MaxBody,
	}
	if r.Draft.Capabilities != nil {
		o.EOS = r.Draft.Capabilities.EOS
	}
	return o
}

// phase is the running part of an answer's time; the zero value is none.
type phase struct {
	into  *time.Duration
	since time.Time
}

// age returns the time since the receipt began.
func (r *Request) age() time.Duration { return r.World.Now().Sub(r.Began) }

// recordCheck adds a check of the draft by the target, and counts it.
func (r *Request) recordCheck(c Check) {
	c.At = r.age() - c.Took
	r.Verify += c.Took
	if len(r.Checks) < maxChecks {
		r.Checks = append(r.Checks, c)
	}
	r.metrics.countCheck(r.Body.Model, c)
}

// recordVerdict sets the verdict on the draft.
func (r *Request) recordVerdict(v accept.Verdict) { r.Verdict, r.Judged = v, r.age() }

// recordDraft records a draft that has ended: its scores, and the time since it was requested without checks by the target.
func (r *Request) recordDraft(d *draft.Draft, requested time.Time) {
	r.ScoreSeries = d.ScoreSeries()
	r.Receipt.Draft = r.World.Now().Sub(requested) - r.Verify
}

// recordFailover adds a position from which another backend continues the answer.
func (r *Request) recordFailover(f Failover) {
	if len(r.Failovers) < maxChecks {
		f.At = r.age()
		r.Failovers = append(r.Failovers, f)
	}
}

// Enter starts to count time for the target or the draft, and stops the running count.
func (r *Request) Enter(t plan.Tier) {
	r.lap()
	r.phase = phase{&r.Receipt.Target, r.World.Now()}
	if t == plan.Draft {
		r.phase.into = &r.Receipt.Draft
	}
}

// Leave stops the running count.
func (r *Request) Leave() {
	r.lap()
	r.phase = phase{}
}

// lap adds the time since the last lap to the running phase.
func (r *Request) lap() {
	if p := &r.phase; p.into != nil {
		now := r.World.Now()
		*p.into += now.Sub(p.since)
		p.since = now
	}
}

// RecordFirstByte tells that the answer's first byte goes out, and how far the running phase is: the headers tell both.
func (r *Request) RecordFirstByte() {
	r.lap()
	r.First = r.age()
}

// count sets the number of answer tokens of the current tier.
func (r *Request) count(tokens int) {
	if r.Tier == plan.Draft {
		r.AcceptedTokens = tokens
	} else {
		r.TargetTokens = tokens
	}
}

// wasted records that no token of a draft became part of the answer.
func (r *Request) wasted(tokens int) {
	r.AcceptedTokens, r.TargetTokens, r.WastedTokens = 0, 0, tokens
}

// usage returns the tokens so far.
func (r *Request) usage() openai.Usage {
	return openai.Usage{Prompt: r.PromptTokens, Completion: r.AcceptedTokens + r.TargetTokens}
}

// events is a request as the dispatcher tells it what becomes of its calls.
type events Request

var _ dispatch.Events = (*events)(nil)

// Waited implements [dispatch.Events].
func (e *events) Waited(d time.Duration) { e.Receipt.Waited += d }

// Tried implements [dispatch.Events].
func (e *events) Tried(t dispatch.Try, at time.Time) (entry int) {
	if len(e.Tries) == maxTries {
		return 0
	}
	t.At = at.Sub(e.Began)
	e.Tries = append(e.Tries, t)
	return len(e.Tries)
}

// Settled implements [dispatch.Events].
func (e *events) Settled(entry int, t dispatch.Try) {
	t.At = e.Tries[entry-1].At
	e.Tries[entry-1] = t
}

// Cost implements [dispatch.Events].
func (e *events) Cost(c dispatch.Cost) {
	e.USD += c.USD
	if c.Tier == plan.Draft {
		e.DraftUSD += c.USD
	}
	e.Unpriced = e.Unpriced || c.Unknown
	e.CachedTokens = max(e.CachedTokens, c.Cached)
}

// Receipt is the part of a request that is kept after its end: what was decided, tried and spent. It holds counts and
// names, never text.
type Receipt struct {
	Route       string        // the model that clients ask for
	Decision    plan.Decision // made once; what happens on the way does not change it
	Tries       []dispatch.Try
	Verdict     accept.Verdict      // of the draft; zero when none was judged
	Bypass      string              // why none was judged although one was planned, or why it does not count; "" is as decided
	ScoreSeries []accept.ScorePoint // its running minimum over tokens
	Checks      []Check             // the target's checks of it
	Failovers   []Failover          // where another backend continued the answer

	Stayed string // why no fallback of the route answered after its own pools failed; "" where that was no question

	Tier           plan.Tier // that the answer came from, "" while there is none
	Finish         string
	PromptTokens   int
	AcceptedTokens int     // draft tokens in the answer
	TargetTokens   int     // target tokens in the answer
	WastedTokens   int     // draft tokens that were thrown away
	DraftedTokens  int     // draft tokens that were made, as far as they came
	ScoredTokens   int     // tokens that the target computed for checks, prompts included
	Estimated      bool    // no engine told the tokens of the answer
	Committed      int     // draft tokens at which the draft was committed; 0 never
	CachedTokens   int     // of its prompt, found in a backend's prefix cache
	USD            float64 // cost of its work, without audits ([economy.CostOfWork])
	DraftUSD       float64 // of that, of the draft's backends
	SavedUSD       float64 // what the target alone would have cost more; negative if less, 0 where no draft was made or no answer
	Unpriced       bool    // some of these prices were unknown

	Audits *atomic.Int64 // 1e-9 USD of work for its audits so far, which may go on after its end; nil: it has none

	Began  time.Time     // when the request was taken up
	Waited time.Duration // for capacity at the pools
	Judged time.Duration // until the verdict, from when it began; 0 while there is none
	Draft  time.Duration // spent on the draft
	Verify time.Duration // spent on asking the target about the draft
	Target time.Duration // spent on the target's answer, or its part of one; at the answer's first byte, until then
	First  time.Duration // until the answer's first byte
}

// NewReceipt returns the receipt of a request that begins now. It has room for one call: most requests make no other.
func NewReceipt(route string, now time.Time) *Receipt {
	one := &struct {
		Receipt
		try [1]dispatch.Try
	}{Receipt: Receipt{Route: route, Began: now}}
	one.Tries = one.try[:0]
	return &one.Receipt
}

// StartOver records that the request is answered by another decision: no draft is part of the answer. The calls so far stay.
func (rc *Receipt) StartOver(d plan.Decision) {
	rc.Decision, rc.Bypass, rc.Verdict, rc.Judged, rc.Estimated = d, "", accept.Verdict{}, 0, false
	rc.PromptTokens, rc.AcceptedTokens, rc.TargetTokens = 0, 0, 0
	rc.WastedTokens, rc.DraftedTokens, rc.ScoredTokens = 0, 0, 0
}

// Check is one check of a part of the draft by the target.
type Check struct {
	Scorer  plan.Scorer   `json:"scorer"`
	Backend string        `json:"backend,omitzero"`
	Tokens  int           `json:"tokens"` // that it was asked about
	Kept    int           `json:"kept"`   // that it stood by, where it did not stand by all
	Pass    bool          `json:"pass"`
	Score   accept.Nats   `json:"score"`
	Reason  string        `json:"reason"` // of accept's, or why it could not say
	Took    time.Duration `json:"ms"`
	At      time.Duration `json:"at_ms"` // when it was asked, after Receipt.Began
}

// Failover is a position from which another backend continued the answer.
type Failover struct {
	Why    string        `json:"reason"` // a reason of accept's, draft_lost or target_lost
	Tokens int           `json:"tokens"` // of the answer before it, as far as they are known
	Bytes  int           `json:"bytes"`
	At     time.Duration `json:"at_ms"` // after Receipt.Began
}

// maxChecks bounds the checks and takeovers in a receipt; blocks make many.
const maxChecks = 16

// maxTries bounds the calls in a receipt.
const maxTries = 32

// Acceptance is the value of the X-Acceptance header: what is known when it is
// written.
func (rc *Receipt) Acceptance() string {
	word, reason := rc.Outcome()
	if !rc.WasJudged() {
		word += ";reason=" + reason
		if rc.Decision.Audit != nil {
			word += ";policy=" + rc.Decision.Audit.Own.Policy()
		}
		return word
	}
	if rc.warmup() {
		word += phaseWarmup
	}
	word += ";reason=" + reason + ";score=" + score(rc.Verdict)
	if m := rc.Decision.Mode; m != "" && m != plan.ModeConfidence {
		word += ";mode=" + string(m)
	}
	if rc.Decision.Audit != nil {
		word += ";policy=" + rc.Decision.Audit.Own.Policy()
	}
	if rc.Decision.Rule != "" {
		word += ";rule=" + string(rc.Decision.Rule)
	}
	return word
}

// phaseWarmup marks answers that were judged by the threshold of a warm-up.
const phaseWarmup = ";phase=warmup"

// warmup reports whether the draft was judged by the threshold of a warm-up, without a check by the target.
func (rc *Receipt) warmup() bool {
	return rc.WasJudged() && rc.Decision.IsWarmup() && !rc.Verdict.IsChecked()
}

// ServedByWarmup reports whether the answer is a draft that was accepted by the threshold of a warm-up, which no audit
// has certified yet.
func (rc *Receipt) ServedByWarmup() bool {
	return rc.warmup() && rc.Tier == plan.Draft && rc.Finish != ""
}

// Outcome returns what happened to the draft, in one word, and why.
func (rc *Receipt) Outcome() (word, reason string) {
	switch {
	case !rc.WasJudged():
		return "bypassed", rc.Reason()
	case rc.Verdict.Accept:
		return "accepted", rc.Verdict.Reason
	case rc.Tier == plan.Draft && rc.Finish != "": // it is the whole answer all the same
		return "accepted", rc.Verdict.LateReason()
	}
	return "rejected", rc.Verdict.Reason
}

// Reason says why no draft was judged; "" where one was.
func (rc *Receipt) Reason() string { return cmp.Or(rc.Bypass, rc.Decision.Reason) }

// WasJudged reports whether a draft was judged.
func (rc *Receipt) WasJudged() bool { return rc.Verdict.Reason != "" }

// score formats a score in nats with three decimals.
func score(v accept.Verdict) string {
	if v.Tokens == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(v.Score), 'f', 3, 64)
}

// AppendExtra appends the object "foregate" of the answer as raw JSON.
func (rc *Receipt) AppendExtra(b []byte) []byte {
	b = append(b, `{"tier":"`...)
	b = append(b, rc.Tier...)
	b = append(b, `","accepted_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.AcceptedTokens), 10)
	b = append(b, `,"target_tokens":`...)
	b = strconv.AppendInt(b, int64(rc.TargetTokens), 10)
	verdict, reason := rc.Outcome()
	b = append(b, `,"acceptance":"`...)
	b = append(b, verdict...)
	b = append(b, `","reason":"`...)
	b = append(b, reason...)
	b = append(b, '"')
	if rc.warmup() {
		b = append(b, `,"phase":"warmup"`...)
	}
	if rc.WasJudged() {
		b = append(b, `,"score":`...)
		b = append(b, score(rc.Verdict)...)
	}
	return append(b, '}')
}
