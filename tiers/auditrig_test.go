package tiers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// auditRig is an auditor in a bubble of time, a request whose engines answer as a test says, and evidence that takes down what it is told.
type auditRig struct {
	t       *testing.T
	auditor *audit.Auditor
	ctx     context.Context // in which it runs
	subject *auditor

	fate    func(key string) (risk.OpenResult, error)
	closes  func() error
	target  func(a *engine.Attempt) error // answers the target's calls, beside what the rig does
	refuses bool                          // the target stands by no token
	words   int                           // of the draft
	logprob float64                       // of each
	loops   bool                          // it says the same four tokens over and over
	same    bool                          // it writes the same
	fails   bool                          // the draft pool makes none
	breaks  int                           // words after which the draft is lost; 0 is never

	mu       sync.Mutex
	log      []string // what happened, in order
	attempts []engine.Attempt
	tickets  []dispatch.Ticket
	bookings []risk.Audit
	streams  int // that are open
}

// ownKey is the key of the rig's request.
var ownKey = risk.Key{Route: "m", TrafficClass: "own"}

// play runs a test in a bubble of time, with an auditor that runs. The draft of the request is audited for its own key: it is
// served from a score of −1 on, and of interest from −3 on.
func play(t *testing.T, test func(r *auditRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newAuditRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.ctx = ctx
		r.auditor.Tasks.Begin(ctx)
		test(r)
		cancel()
		r.auditor.Tasks.Wait()
		for _, p := range []Pool{r.subject.Draft, r.subject.Target} {
			for _, b := range p.Snapshot() {
				if b.InFlight != 0 || r.streams != 0 {
					t.Errorf("%d places and %d streams are held for ever", b.InFlight, r.streams)
				}
			}
		}
	})
}

func newAuditRig(t *testing.T) *auditRig {
	t.Helper()
	r := &auditRig{t: t, words: 12, logprob: -0.05}
	n := 0
	r.auditor = audit.New(audit.Options{World: world.System{}, Evidence: journal{r}, NewTicket: func() string {
		n++
		return fmt.Sprint("t", n)
	}})
	q := playedRequest(t, r, r, `{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true,"max_tokens":600}`, "http://targets")
	q.Identity = dispatch.Identity{ID: "id", Header: map[string][]string{"Traceparent": {"x"}}, Spans: true}
	q.audits, q.MaxBody = r.auditor, 1<<20
	q.Receipt = &Receipt{Route: "m", Decision: plan.Decision{
		Plan: plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeRisk, Auditor: plan.ScorerIDs, Resume: plan.ResumeIDs}, Accept: accept.Config{Threshold: -1},
		Audit: &plan.AuditDecision{Own: risk.Decision{Key: ownKey, Version: 1, Op: 1, Hi: 3, Threshold: -1, Floor: -3, Audited: true}},
	}}
	q.Config.Mode, q.Config.HoldbackTokens, q.Config.MaxRetries = plan.ModeRisk, 4, 2
	q.Config.Risk = plan.Risk{MaxConcurrentAudits: 1, Label: plan.LabelLenient}
	q.Draft.Capabilities, q.Target.Capabilities = &probe.Capabilities{TokenIDs: true}, &probe.Capabilities{Scoring: openai.ScoreCompletions}
	r.subject = &auditor{Request: q}
	return r
}

// rests waits until nothing is audited any more.
func (r *auditRig) rests() {
	r.auditor.Tasks.Wait()
	r.auditor.Tasks.Begin(r.ctx)
}

// happens fails the test unless just this has happened since the last time.
func (r *auditRig) happens(what string, want ...string) {
	r.t.Helper()
	r.rests()
	if !slices.Equal(r.log, want) {
		r.t.Errorf("%s: %v, want %v", what, r.log, want)
	}
	r.log = nil
}

// drops fails the test unless just these audits came to nothing since the last time.
func (r *auditRig) drops(want ...string) {
	r.t.Helper()
	if got := counted(r.subject.metrics.dropped, "reason"); !slices.Equal(got, want) {
		r.t.Errorf("dropped %v, want %v", got, want)
	}
	r.subject.metrics.dropped.Reset()
}

// usd is what audits have cost.
func (r *auditRig) usd() float64 {
	return float64(r.subject.Audits.Load()) / 1e9
}

// scoreUSD is what the rig's target asks for the scores of a draft of 12 tokens behind its prompt of 2.
const scoreUSD = (2 + 12) * 3

// mayAudit reports whether the budget of the rig's route is not spent.
func (r *auditRig) mayAudit() bool {
	return r.auditor.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1, AuditBudget: 1}, false)
}

// counted returns the values of a label as often as they were counted, in order.
func counted(c *prometheus.CounterVec, label string) (all []string) {
	metrics := make(chan prometheus.Metric, 16)
	go func() {
		defer close(metrics)
		c.Collect(metrics)
	}()
	for m := range metrics {
		var d dto.Metric
		_ = m.Write(&d) // never fails
		for _, l := range d.GetLabel() {
			if l.GetName() == label {
				all = append(all, slices.Repeat([]string{l.GetValue()}, int(d.GetCounter().GetValue()))...)
			}
		}
	}
	slices.Sort(all)
	return all
}

func (r *auditRig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// chunks are those of the draft.
func (r *auditRig) chunks() (all []*openai.Chunk) {
	for i := range r.words {
		c := &openai.Chunk{Choices: 1, Plain: true, IDs: []int32{int32(i) + 100}, Logprobs: []float64{r.logprob}}
		c.Text = fmt.Appendf(nil, "word%d ", i)
		if r.loops {
			c.IDs[0] = int32(i)%4 + 100
		}
		if c.AddTop(); i == 0 {
			c.PromptIDs = []int32{1, 2}
		}
		if i == r.words-1 {
			c.Finish, c.Stop = []byte("stop"), []byte("null")
		}
		all = append(all, c)
	}
	return all
}

// watched hands the draft to a watcher.
func (r *auditRig) watched() {
	w := r.subject.Watch()
	for _, c := range r.chunks() {
		w.Observe(c, false)
	}
	w.End()
}

// answer is the draft in one piece.
func (r *auditRig) answer() openai.DraftAnswer {
	var text, scores, ids []string
	for _, c := range r.chunks() {
		text, ids = append(text, string(c.Text)), append(ids, fmt.Sprint(c.IDs[0]))
		scores = append(scores, fmt.Sprintf(`{"token":%q,"logprob":%g,"top_logprobs":[]}`, c.Text, c.Logprobs[0]))
	}
	a, err := openai.ParseDraftAnswer(fmt.Appendf(nil, `{"choices":[{"index":0,"message":{"role":"assistant","content":%q},
		"logprobs":{"content":[%s]},"finish_reason":"stop","token_ids":[%s]}],"prompt_token_ids":[1,2],
		"usage":{"prompt_tokens":2,"completion_tokens":%d}}`,
		strings.Join(text, ""), strings.Join(scores, ","), strings.Join(ids, ","), len(ids)), false)
	if err != nil {
		r.t.Error(err)
	}
	return a
}

// Open implements [engine.Upstream].
func (r *auditRig) Open(_ context.Context, a *engine.Attempt) (engine.Stream, error) {
	r.mu.Lock()
	r.attempts = append(r.attempts, *a)
	r.mu.Unlock()
	r.note("%s", strings.ToLower(kindOf(a.Call)))
	if r.target != nil && a.URL == "http://targets" {
		if err := r.target(a); err != nil {
			return nil, err
		}
	}
	if r.fails && a.URL == "http://drafts" {
		return nil, &engine.Failure{Kind: engine.Rejected, Status: 400}
	}
	s := &auditStream{auditRig: r}
	switch c := a.Call.(type) {
	case *engine.Draft:
		s.chunks = r.chunks()
	case *engine.Answer:
		if *c.Into = r.answer(); !c.Draft {
			c.Into.Usage.Completion = 30
			if !r.same {
				c.Into.Text = []byte("something else")
			}
		}
		a.Used = c.Into.Usage
	case *engine.Judge:
		a.Used.Prompt = r.subject.Body.PromptTokens + 12 + openai.EstimateTokens(len("something else"))
		if c.Into.Odds = 3; r.refuses {
			c.Into.Odds = -3
		}
	case *engine.Score:
		a.Used.Prompt = 2 + len(c.Question.Draft)
		for i, id := range c.Question.Draft {
			said := openai.Scored{Logprob: -0.1, Top: -0.1, TopID: id}
			if r.refuses && i > len(c.Question.Draft)/3 {
				said = openai.Scored{Logprob: -9, Top: -0.01, TopID: 7}
			}
			c.Into.Tokens = append(c.Into.Tokens, said)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return s, nil
}

// auditStream is an answer of the rig's.
type auditStream struct {
	*auditRig
	chunks []*openai.Chunk
	read   int
	closed bool
}

func (s *auditStream) Next(engine.Want) (*openai.Chunk, error) {
	if s.breaks > 0 && s.read == s.breaks {
		return nil, &engine.Failure{Kind: engine.Cut}
	}
	if s.read == len(s.chunks) {
		return nil, io.EOF
	}
	s.read++
	return s.chunks[s.read-1], nil
}

func (s *auditStream) Buffered() bool { return false }

func (s *auditStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.streams--
	}
}

// Enter implements [dispatch.Queue].
func (r *auditRig) Enter(_ context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	r.mu.Lock()
	r.tickets = append(r.tickets, t)
	r.mu.Unlock()
	return 0, try(pool.Admission{})
}

// journal is evidence that takes down what it is told.
type journal struct{ *auditRig }

func (j journal) View(risk.Key) risk.View       { return risk.View{} }
func (j journal) State(risk.Key) *risk.KeyState { return &risk.KeyState{} }
func (j journal) Drafted(risk.Key, int, int)    {}

func (j journal) Open(_ context.Context, b risk.Audit) (risk.OpenResult, error) {
	j.mu.Lock()
	j.bookings = append(j.bookings, b)
	j.mu.Unlock()
	return j.told("open", b.Key, b.Ticket)
}

func (j journal) OpenWarmup(_ context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	return j.told("warmup", k, ticket)
}

func (j journal) told(what string, k risk.Key, ticket string) (risk.OpenResult, error) {
	key := k.TrafficClass
	if j.note("%s %s %s", what, key, ticket); j.fate == nil {
		return risk.Opened, nil
	}
	return j.fate(key)
}

func (j journal) Close(_ context.Context, _ risk.Key, ticket string, bad bool) error {
	if j.note("close %s %s", ticket, map[bool]string{true: "bad", false: "good"}[bad]); j.closes == nil {
		return nil
	}
	return j.closes()
}

// prices are those of a token.
var prices = economy.Prices{DraftPrefill: 1, DraftDecode: 2, TargetPrefill: 3, TargetDecode: 5}

// priced has the rig's pools cost so much.
func (r *auditRig) priced() {
	r.subject.Prices = func() economy.Prices { return prices }
	r.subject.Draft.SetPrice(pool.Price{Tokens: prices.Draft()})
	r.subject.Target.SetPrice(pool.Price{Tokens: prices.Target()})
}
