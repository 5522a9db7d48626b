// Package engines is the simulated engines of a run in virtual time: the simulator's schedulers and
// language behind the gateway's own [engine.Upstream]. Calls and answers are values; there is no JSON.
//
// Start at [New] and [Fleet.Open]. What it cannot run fails as a request that the engine rejects, with
// an error that says so: answers with tools, drafts that list tokens by their ids, draws, a judge's
// words, and bodies that are passed through.
package engines

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// Hop is the way of a message from one process to the next: parsing, routing and loopback, about half
// of what the gateway adds at the median (docs/guides/lab.md#live-or-virtual). It is applied in three places: here to
// a call and to its abort on their way to an engine, in the lab to a request on its way to the gateway,
// and there to the answer's way back, both hops of it, where the client's times are taken. An engine's
// token is with the gateway at once.
const Hop = 200 * time.Microsecond

// Options make a [Fleet].
type Options struct {
	Loop  *eventloop.Loop
	Seed  uint64
	Find  func(*openai.Request) *Request             // what the lab knows of a request
	Score func(prompt, ids []int32) []quality.Choice // what the target says of ids behind a prompt
}

// Fleet is all engines of a run.
type Fleet struct {
	Options
	pools    []*Pool
	backends map[string]*Backend // by URL
	attempts int
}

var _ engine.Upstream = (*Fleet)(nil)

// New makes a fleet without pools.
func New(o Options) *Fleet { return &Fleet{Options: o, backends: map[string]*Backend{}} }

// Pool is one pool's backends.
type Pool struct {
	Name     string
	Def      *loadtest.Pool
	Model    *vllmsim.Model // that its engines serve now
	Profile  vllmsim.Profile
	Context  int // tokens that a prompt and its answer may have
	Backends []*Backend
}

// Add adds a pool. The error tells what its engines would not start with.
func (f *Fleet) Add(name string, def *loadtest.Pool, divergence float64) (*Pool, error) {
	o, profile, err := vllmsim.Options{
		Profile: def.Profile, Divergence: divergence, Blind: def.Blind, Policy: def.Policy,
		BlocksOverride: def.Blocks, MaxNumSeqs: def.MaxSeqs, MaxBatchedTokens: def.MaxBatchedTokens,
	}.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s pool: %w", name, err)
	}
	p := &Pool{
		Name: name, Def: def, Model: vllmsim.NewDraft(f.Seed, divergence, def.Blind), Profile: profile, Context: o.MaxModelLen,
	}
	for i := range def.Count {
		b := newBackend(f, p, i)
		p.Backends = append(p.Backends, b)
		f.backends[b.URL()] = b
	}
	f.pools = append(f.pools, p)
	return p, nil
}

// Backend returns the backend with a base URL, nil when there is none.
func (f *Fleet) Backend(url string) *Backend { return f.backends[url] }

// Request is a request as engines see it, and what they answered to it.
type Request struct {
	Prompt []int32 // not to be changed
	Answer []int32 // what the last call of the answer had behind the prompt, and what was read of it

	last *attempt
	over bool
}

// End says that the answer is over: what is still read is read for an audit.
func (r *Request) End() { r.over = true }

type answering struct{}

// Answering returns a context whose calls make an answer. Calls under another are of audits.
func Answering(ctx context.Context) context.Context {
	return context.WithValue(ctx, answering{}, true)
}

// Open implements [engine.Upstream].
func (f *Fleet) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	b := f.backends[a.URL]
	if b == nil {
		return nil, &engine.Failure{Kind: engine.Refused, Err: fmt.Errorf("no engine at %q", a.URL)}
	}
	f.attempts++
	b.Calls++
	t := &attempt{backend: b, number: f.attempts, call: a.Call, ctx: ctx, silence: a.IdleTimeout, wants: engine.WantTops}
	t.answers = ctx.Value(answering{}) != nil
	if err := t.prepare(); err != nil {
		return nil, err
	}
	f.Loop.After(Hop, func() {
		if !t.over {
			b.submit(t)
		}
	})
	if a.FirstByteTimeout > 0 {
		first := f.Loop.Timer(a.FirstByteTimeout, func() {
			b.abort(t)
			t.fail(&engine.Failure{Kind: engine.Timeout, Err: engine.ErrFirstByte})
		})
		defer first.Stop()
	}
	if f := t.first(); f != nil {
		t.Close()
		return nil, f
	}
	if t.form == inOnePiece && t.writer != nil {
		a.Used = t.used()
	}
	t.forget = f.Loop.OnCancel(ctx, t.Close)
	return t, nil
}

// EndOfTurn is the id that ends an answer.
func EndOfTurn() int32 { return endOfTurn }

var endOfTurn = func() int32 {
	ids := vllmsim.DefaultTokenizer().AppendMessage(nil, vllmsim.Message{Role: "assistant", Content: "."})
	return ids[len(ids)-1]
}()

// Unit is uniform in [0, 1), a hash of what it is for.
func Unit(parts ...uint64) float64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h ^= p
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 29
		h *= 0x94d049bb133111eb
		h ^= h >> 32
	}
	return float64(h>>11) / (1 << 53)
}
