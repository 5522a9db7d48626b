package tiers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/upstream"
	"github.com/foregate/foregate/tiers/world"
)

const testScale = 200 // simulated hardware runs that much faster

// testConfig accepts most of the simulator's drafts; tests move what they test.
func testConfig() plan.Config {
	return plan.Config{
		MidstreamFailover: true,
		Mode:              plan.ModeConfidence,
		Accept:            accept.Config{},
		HoldbackTokens:    16, Holdback: time.Second, MaxPromptTokens: 100000,
		MaxRetries: 2, RetryBudget: 0.2,
		Timeouts: plan.Timeouts{DraftFirstToken: 5 * time.Second, TargetFirstToken: 5 * time.Second, StreamIdle: 5 * time.Second, Total: time.Minute},
	}
}

// rig is a cascade over one draft and one target simulator.
type rig struct {
	t             *testing.T
	draft, target *vllmsim.Server
	cascade       *Cascade
	cfg           plan.Config
}

func newTestCascade(t *testing.T, rt Route) *Cascade {
	t.Helper()
	o := testOptions(t)
	o.Routes = []Route{rt}
	return New(o)
}

// testOptions are options with connections of the test's own.
func testOptions(t testing.TB) Options {
	t.Helper()
	u := upstream.New(upstream.Options{})
	t.Cleanup(u.Close)
	return allOptions(u)
}

// allOptions are options with an upstream; nothing else is known, and nobody is kept out.
func allOptions(u engine.Upstream) Options {
	return Options{
		Upstream: u, Queue: open{}, Breaker: open{}, World: world.System{}, MaxBody: 16 << 20,
		Capabilities: func(string) *probe.Capabilities { return nil }, AuditsAll: func(string) bool { return false },
		Random: func(string, Purpose) float64 { return rand.Float64() },
	}
}

// open is a queue and a breaker that let every call in.
type open struct{}

func (open) Enter(_ context.Context, _ dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return 0, try(pool.Admission{})
}

func (open) Allow(string, string, string) (dispatch.Permit, error) { return open{}, nil }

func (open) Report(error) {}

func testPool(t *testing.T, name, model string, urls ...string) *pool.Pool {
	t.Helper()
	p, err := pool.New(pool.Options{Name: name, Model: model, Backends: urls})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// collector is a client in memory.
type collector struct {
	head   ResponseHead
	begun  int
	writes [][]byte
}

func (c *collector) Begin(h ResponseHead) error {
	c.head = h
	c.begun++
	return nil
}

func (c *collector) Write(p []byte) error {
	c.writes = append(c.writes, bytes.Clone(p))
	return nil
}

// reply is what a client makes of an answer.
type reply struct {
	text     string
	finish   string
	stop     string
	roles    int
	done     bool
	usage    openai.Usage
	foregate struct {
		Tier     string `json:"tier"`
		Accepted int    `json:"accepted_tokens"`
		Target   int    `json:"target_tokens"`
		Verdict  string `json:"acceptance"`
		Reason   string `json:"reason"`
	}
	ids, promptIDs []int32
}

// wireChunk is a chunk or an answer as any client would decode it.
type wireChunk struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
		Finish    string          `json:"finish_reason"`
		Stop      json.RawMessage `json:"stop_reason"`
		IDs       []int32         `json:"token_ids"`
		PromptIDs []int32         `json:"prompt_token_ids"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	PromptIDs []int32         `json:"prompt_token_ids"`
	Foregate  json.RawMessage `json:"foregate"`
}

func (r *reply) add(t *testing.T, raw []byte) {
	t.Helper()
	var c wireChunk
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("chunk %s: %v", raw, err)
	}
	r.promptIDs = append(r.promptIDs, c.PromptIDs...)
	for _, ch := range c.Choices {
		r.text += ch.Text + ch.Delta.Content + ch.Message.Content
		r.ids = append(r.ids, ch.IDs...)
		r.promptIDs = append(r.promptIDs, ch.PromptIDs...)
		if ch.Delta.Role != "" {
			r.roles++
		}
		if ch.Finish != "" {
			r.finish = ch.Finish
			r.stop = string(ch.Stop)
		}
	}
	if c.Usage != nil {
		r.usage = openai.Usage{Prompt: c.Usage.Prompt, Completion: c.Usage.Completion}
	}
	if c.Foregate != nil {
		if err := json.Unmarshal(c.Foregate, &r.foregate); err != nil {
			t.Fatal(err)
		}
	}
}

// read makes an answer of a body or a stream.
func read(t *testing.T, stream bool, body []byte) reply {
	t.Helper()
	var a reply
	if !stream {
		a.add(t, body)
		return a
	}
	events := openai.NewEventReader(bytes.NewReader(body), 1<<20)
	for {
		data, err := events.Next()
		if err == io.EOF {
			return a
		}
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		if string(data) == openai.Done {
			a.done = true
			continue
		}
		a.add(t, data)
	}
}

// ask sends a chat or completion body through the cascade.
func (r *rig) ask(kind openai.Kind, tier plan.Tier, body string) (reply, *Receipt, error) {
	r.t.Helper()
	req := scan(r.t, kind, body)
	var out collector
	rc, err := answerBy(r.t.Context(), r.cascade, arrival{Body: req, Tier: tier, ID: "test", Header: http.Header{}}, &out)
	if err != nil {
		return reply{}, rc, err
	}
	if out.begun != 1 {
		r.t.Errorf("Begin was called %d times", out.begun)
	}
	return read(r.t, req.Stream, bytes.Join(out.writes, nil)), rc, nil
}

// arrival is what a test asks.
type arrival struct {
	Body   *openai.Request
	Tier   plan.Tier
	ID     string
	Header http.Header
	Config *plan.Config // nil: the route's
}

// answerBy has a cascade answer a request by the route of its model.
func answerBy(ctx context.Context, c *Cascade, a arrival, sink Sink) (*Receipt, error) {
	rt, err := c.Route(a.Body.Model)
	if err != nil {
		return nil, err
	}
	r := c.arrive(Arrival{
		Metadata: &Metadata{Identity: dispatch.Identity{ID: a.ID, Header: a.Header}},
		Body:     a.Body, Demand: plan.Demand{Tier: a.Tier}, Route: rt,
	}, "")
	if a.Config != nil {
		r.Config, r.Plan = *a.Config, plan.Make(*a.Config, r.Facts)
	}
	err = c.answer(ctx, r, Delivery{Sink: sink})
	return r.Receipt, err
}

// direct asks a simulator itself.
func direct(t *testing.T, url, path, body string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", path, resp.StatusCode, raw, err)
	}
	return read(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"), raw)
}

// sample is how much of something a test takes: a part in make test, all of it in make test-long.
func sample(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// eventually polls until ok or the time is up.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen in 10 s", what)
		}
		<-tick.C
	}
}

// routeOf returns the route m.
func routeOf(c *Cascade) *Route { return (*c.routes.Load())["m"] }

// scan reads a request.
func scan(t testing.TB, kind openai.Kind, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(kind, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// probedRig is a rig whose engines were asked what they can do.
func probedRig(t *testing.T, draft, target vllmsim.Options) *rig {
	t.Helper()
	r := &rig{t: t, cfg: testConfig()}
	r.cfg.MaxConcurrentScores, r.cfg.Timeouts.TargetFirstToken = 4, 200*time.Second
	draft.Model, target.Model = "small", "big"
	draft.TimeScale, target.TimeScale = testScale, testScale
	if target.Profile == "" {
		target.Profile = "h100-70b-tp4"
	}
	target.Seed = draft.Seed
	r.draft, r.target = vllmsim.Start(t, draft), vllmsim.Start(t, target)
	r.wire(t, r.target.URL())
	return r
}

// wire makes the rig's cascade, with a probe of its pools.
func (r *rig) wire(t *testing.T, targets ...string) {
	t.Helper()
	drafts, pool := testPool(t, "drafts", "small", r.draft.URL()), testPool(t, "targets", "big", targets...)
	prober := probed(t, drafts, pool)
	rt := Route{Model: "m", Draft: drafts, Target: pool, SameTokenizer: true, Config: func() plan.Config { return r.cfg }}
	o := testOptions(t)
	o.Routes, o.Capabilities = []Route{rt}, prober.Capabilities
	r.cascade = New(o)
}

// probed probes pools until their cards are known.
func probed(t *testing.T, pools ...*pool.Pool) *probe.Prober {
	t.Helper()
	client := upstream.New(upstream.Options{})
	defer client.Close()
	o := probe.Options{Upstream: client, Mine: func(string, string) bool { return true }, Ready: func() bool { return true }}
	for _, p := range pools {
		o.Pools = append(o.Pools, probe.Pool{Name: p.Name(), Model: p.Model(), Backends: func() (out []probe.Backend) {
			for _, b := range p.Snapshot() {
				out = append(out, probe.Backend{ID: b.ID, URL: b.URL, Up: b.State != pool.StateDown, Life: 1})
			}
			return out
		}, Credentials: p.Credentials, Ended: func(string, error) {}, MayScore: func(string, int) (func(error), error) { return func(error) {}, nil }})
	}
	prober, err := probe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = prober.Run(ctx)
	}()
	for _, p := range pools {
		eventually(t, "the probe of "+p.Name(), func() bool { return prober.Capabilities(p.Name()) != nil })
	}
	cancel()
	<-done
	return prober
}

// playedRequest is a request of a text whose calls a test answers, by a queue, with the backend http://drafts and others of the target.
func playedRequest(t *testing.T, up engine.Upstream, q dispatch.Queue, body string, targets ...string) *Request {
	t.Helper()
	return &Request{
		Arrival: Arrival{Metadata: &Metadata{Caller: identity.Caller{Priority: identity.High}}, Body: scan(t, openai.Chat, body)},
		Config:  plan.Config{MidstreamFailover: true, MaxConcurrentScores: 4},
		Draft:   Pool{Pool: testPool(t, "drafts", "big", "http://drafts"), Tier: plan.Draft},
		Target:  Pool{Pool: testPool(t, "targets", "big", targets...), Tier: plan.Target},
		Services: &Services{
			World: world.System{}, MaxBody: 1000, ContextWindow: func(string) int { return 0 },
			Random: func(string, Purpose) float64 { return 0.5 }, metrics: newMetrics(nil, time.Now),
			bookAudit: func(*Metadata, string, ledger.Nanos) {},
			Dispatch: dispatch.New(dispatch.Options{
				World: world.System{}, Upstream: up, Queue: q, Breaker: open{}, Scores: dispatch.NewScoreLimiter(), Window: func(string) int { return 0 },
			}),
		},
	}
}

// kindOf names a call by its type.
func kindOf(c engine.Call) string { return strings.TrimPrefix(fmt.Sprintf("%T", c), "*engine.") }
