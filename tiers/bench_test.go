package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/world"
)

// memory is a store in memory.
type memory struct {
	mu      sync.Mutex
	entries map[cache.Key]*cache.Entry
	copies  map[cache.Key]*cache.Entry // of this replica
	counts  map[cache.Result]int
	found   cache.Result  // what a look-up without an entry finds; "" is none
	takes   time.Duration // a look-up
	deaf    bool          // purges are not heard of
}

func newMemory() *memory {
	return &memory{entries: map[cache.Key]*cache.Entry{}, copies: map[cache.Key]*cache.Entry{}, counts: map[cache.Result]int{}}
}

func (m *memory) Epochs(string, string) (cache.Epochs, bool) { return cache.Epochs{}, !m.deaf }

func (m *memory) Local(k cache.Key) (*cache.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.copies[k]
	return e, e != nil
}

func (m *memory) Look(_ context.Context, k cache.Key) (*cache.Entry, cache.Result) {
	time.Sleep(m.takes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[k]; e != nil {
		return e, cache.ResultHit
	}
	if m.found != "" {
		return nil, m.found
	}
	return nil, cache.ResultMiss
}

func (m *memory) Put(k cache.Key, e *cache.Entry, _ time.Duration, then func()) {
	m.mu.Lock()
	m.entries[k] = e
	m.mu.Unlock()
	if then != nil {
		then()
	}
}

func (m *memory) Count(_ string, r cache.Result, _ *cache.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[r]++
}

// kept is how many answers there are.
func (m *memory) kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// speaker answers in place of a cascade of one engine, which says "It is answer N." in pieces, one every pace.
type speaker struct {
	pace   time.Duration
	pieces func(n int) []string // nil is the usual
	fails  func(n int) error    // before the first byte; nil never does
	breaks func(n int) error    // behind the first piece; nil never does
	opaque bool                 // what it says is more than text
	judged func(n int, a made, rc *Receipt)

	mu     sync.Mutex
	asks   []made
	causes []error // why generations were cancelled
}

// made is an answer that the speaker was asked for.
type made struct {
	*Request
	Delivery
}

// generations is how many were begun, cancelled is why some did not end.
func (s *speaker) generations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks)
}

func (s *speaker) cancelled() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.causes
}

func (s *speaker) answer(ctx context.Context, r *Request, to Delivery) error {
	a := made{r, to}
	s.mu.Lock()
	s.asks = append(s.asks, a)
	n := len(s.asks)
	s.mu.Unlock()
	rc := &Receipt{Route: a.Body.Model, Decision: plan.Decision{Plan: r.Plan}, Tries: []dispatch.Try{{Pool: "p"}}}
	r.Receipt = rc
	if s.fails != nil {
		if err := s.fails(n); err != nil {
			time.Sleep(s.pace)
			rc.Tries[0].Failed = "refused"
			return err
		}
	}
	rc.Tier, rc.Finish, rc.PromptTokens = plan.Target, "stop", 7
	if s.judged != nil {
		s.judged(n, a, rc)
	}
	return s.say(ctx, n, a, to.Sink, rc)
}

// say tells an answer.
func (s *speaker) say(ctx context.Context, n int, a made, to Sink, rc *Receipt) error {
	pieces := []string{"It is", fmt.Sprintf(" answer %d.", n)}
	if s.pieces != nil {
		pieces = s.pieces(n)
	}
	f := openai.NewFramer(a.Body.Kind, a.ID, a.Body.Model, 1)
	tap := a.Observer
	if tap == nil {
		alone := newRecorder(a.Body, 1<<20)
		tap = alone
	}
	if a.Body.Stream {
		if err := to.Begin(a.head()); err != nil {
			return err
		}
	}
	for i, p := range pieces {
		select {
		case <-time.After(s.pace):
		case <-ctx.Done():
			s.mu.Lock()
			s.causes = append(s.causes, context.Cause(ctx))
			s.mu.Unlock()
			return context.Cause(ctx)
		}
		if i == 1 && s.breaks != nil {
			if err := s.breaks(n); err != nil {
				return &BrokenError{Cause: err}
			}
		}
		rc.TargetTokens++
		if s.opaque {
			tap.Chunk([]byte(`{"choices":[{"index":0,"delta":{"content":` + quoted(p) + `},"finish_reason":null}]}`))
		} else {
			tap.Text([]byte(p))
		}
		if a.Body.Stream {
			if err := to.Write(f.Text(nil, []byte(p))); err != nil {
				return err
			}
		}
	}
	end := openai.Ending{Finish: "stop", Usage: openai.Usage{Prompt: 7, Completion: len(pieces)}}
	if s.opaque {
		tap.Chunk([]byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
	}
	tap.End(end)
	if a.Body.Stream {
		return to.Write(f.Finish(nil, nil, end, false))
	}
	if err := to.Begin(a.head()); err != nil {
		return err
	}
	return to.Write(f.Body(nil, []byte(strings.Join(pieces, "")), end))
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // never fails
	return string(b)
}

// reader is a client.
type reader struct {
	ctx  context.Context
	left error // what a write gives once the client is gone

	mu   sync.Mutex
	head *ResponseHead
	got  []byte
}

func (r *reader) Begin(h ResponseHead) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head = &h
	return nil
}

func (r *reader) Write(p []byte) error {
	if r.ctx.Err() != nil && r.left != nil {
		return r.left
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, p...)
	return nil
}

// text is what the client has of the answer's text, and whether that is whole.
func (r *reader) text(t *testing.T) (text string, whole bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == nil || len(r.got) == 0 {
		return "", false
	}
	a := read(t, r.head.Stream, r.got)
	return a.text, a.done || !r.head.Stream
}

// bench is a pipeline with a store and an engine of its own.
type bench struct {
	*Pipeline
	t       *testing.T
	route   *Route
	store   *memory
	speaker *speaker
	shared  *Generations
	cfg     cache.Config
	judging plan.Config
}

func newBench(t *testing.T, adjust func(*PipelineOptions)) *bench {
	t.Helper()
	b := &bench{
		t: t, store: newMemory(), speaker: &speaker{pace: time.Second},
		shared: NewGenerations(world.System{}),
		cfg:    cache.Config{Enabled: true, TTL: time.Hour, MaxEntryBytes: 1 << 20},
	}
	b.route = &Route{Model: "m", Target: testPool(t, "targets", "big", "http://127.0.0.1:1"), Config: func() plan.Config { return b.judging }}
	o := PipelineOptions{
		Base: context.Background(), HighShare: func() float64 { return 1 }, IsShed: func(error) bool { return false }, OnPanic: func(string, any) {},
		Cascade: New(allOptions(passing{})), Store: b.store, Generations: b.shared, CacheConfig: func(string) cache.Config { return b.cfg },
	}
	if adjust != nil {
		adjust(&o)
	}
	b.Pipeline = NewPipeline(o)
	b.generate = b.speaker.answer
	return b
}

// drafts has drafts of the bench's requests be judged.
func (b *bench) drafts() {
	b.route.Draft = testPool(b.t, "drafts", "small", "http://127.0.0.1:1")
	b.judging = plan.Config{Mode: plan.ModeConfidence, MaxPromptTokens: 1000, Timeouts: plan.Timeouts{Total: time.Hour}}
}

// passing is an engine that answers what passes through.
type passing struct{}

func (passing) Open(_ context.Context, a *engine.Attempt) (engine.Stream, error) {
	a.Call.(*engine.Forward).Into.Used = openai.Usage{Prompt: 7, Completion: 2}
	return &stream{}, nil
}

// says has every answer be of these pieces.
func (b *bench) says(pieces ...string) { b.speaker.pieces = func(int) []string { return pieces } }

var (
	errEngine = errors.New("the engine is broken")
	errLeft   = errors.New("the client left")
)

// asked is a request that was answered, or not.
type asked struct {
	*reader
	record  Record
	arrival Metadata
	err     error
}

// question is what is asked; the zero value is a chat of nobody in particular at temperature 0.
type question struct {
	stream  bool
	more    string // members of the body
	control CacheControl
	caller  identity.Caller
	ctx     context.Context // nil is the test's
}

// begin sends a request; what became of it may be read once done is closed.
func (b *bench) begin(q question) (a *asked, done chan struct{}) {
	b.t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"What is it?"}]%s`, q.stream, q.more)
	if !strings.Contains(q.more, "temperature") {
		body += `,"temperature":0`
	}
	if q.ctx == nil {
		q.ctx = b.t.Context()
	}
	if q.caller.Tenant == "" {
		q.caller.Tenant = "acme"
	}
	read := scan(b.t, openai.Chat, body+"}")
	a = &asked{reader: &reader{ctx: q.ctx, left: errLeft}, arrival: Metadata{Identity: dispatch.Identity{ID: "id"}, Began: time.Now(), Caller: q.caller}}
	done = make(chan struct{})
	in := Arrival{
		Metadata: &a.arrival, Body: read, CacheControl: q.control, Demand: plan.Demand{Tier: plan.Auto, Mode: plan.DemandDefault}, Route: b.route,
	}
	go func() {
		defer close(done)
		a.err = b.Answer(q.ctx, in, a.reader, &a.record)
	}()
	return a, done
}

// ask sends a request and waits for its end.
func (b *bench) ask(q question) *asked {
	b.t.Helper()
	a, done := b.begin(q)
	<-done
	return a
}

// is fails the test unless the client has that answer, and the cache had that part in it.
func (a *asked) is(t *testing.T, what, text string, result cache.Result) {
	t.Helper()
	got, whole := a.text(t)
	if a.err != nil || got != text || !whole || a.record.Cache != result {
		t.Errorf("%s: %q (whole %t, %s, %v), want %q (%s)", what, got, whole, a.record.Cache, a.err, text, result)
	}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, adjust func(*PipelineOptions), test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t, adjust)) })
}
