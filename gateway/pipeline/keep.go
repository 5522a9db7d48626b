package pipeline

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// generation is one answer that is made for a request and may serve others.
type generation struct {
	*request
	recording *recording
	vouched   vouched
}

func (q *request) newGeneration() *generation {
	return &generation{request: q, recording: newRecording(q.Body.Request, q.maxAnswer())}
}

// maxAnswer is the size in bytes up to which an answer is taken down.
func (q *request) maxAnswer() int { return max(q.cfg.MaxEntryBytes, cache.MinSharedBytes) }

// settle hands a whole answer to complete, with how it is kept; nil is not, or not yet.
func (g *generation) settle(e *cache.Entry, w *openai.Whole, complete func(e *cache.Entry, keep func(then func()))) {
	keep := func(then func()) { g.p.o.Store.Put(g.promise.key, e, g.cfg.TTL, then) }
	switch {
	case !g.mayKeep(e, w):
		complete(e, nil)
	case unproven(e):
		complete(e, nil)
		g.vouched.then(func() { keep(nil) })
	default:
		complete(e, keep)
	}
}

// mayKeep says whether a whole answer may serve others later.
func (g *generation) mayKeep(e *cache.Entry, w *openai.Whole) bool {
	if !g.promise.keeps || len(e.Answer) > g.cfg.MaxEntryBytes || !g.promise.fits(e) || receipt.IsPressure(e.Acceptance) {
		return false
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		switch {
		case !c.Complete(), len(c.Calls) > 0 && !g.cfg.ToolCalls:
			return false
		case g.Body.JSON && c.Finish == "stop" && len(c.Calls) == 0 && !json.Valid(c.Text):
			return false
		}
	}
	return true
}

// vouching is whom an audit tells that the target stands by the answer; nil where no answer waits for that.
func (g *generation) vouching() func() {
	if !g.promise.keeps || g.judging.Mode != plan.ModeRisk || !g.judging.Risk.Warmup {
		return nil
	}
	return g.vouched.tell
}

// vouched is whether an audit has found that the target stands by an answer. The audit may be over before the answer is, or
// after. A draft of a warm-up is kept then, and never otherwise.
type vouched struct {
	mu   sync.Mutex
	good bool
	next func()
}

// tell says that it has.
func (v *vouched) tell() {
	v.mu.Lock()
	v.good = true
	next := v.next
	v.next = nil
	v.mu.Unlock()
	if next != nil {
		next()
	}
}

// then calls next when it has; nothing calls next where it never does.
func (v *vouched) then(next func()) {
	v.mu.Lock()
	good := v.good
	if !good {
		v.next = next
	}
	v.mu.Unlock()
	if good {
		next()
	}
}

// recording takes an answer down while it is made.
type recording struct{ made *openai.Assembler }

var _ strategy.Observer = (*recording)(nil)

func newRecording(r *openai.Request, maxBytes int) *recording {
	made := openai.NewAssembler(r.Kind, maxBytes)
	made.Want(r.Choices())
	return &recording{made}
}

// Text implements strategy.Observer.
func (r *recording) Text(text []byte) { r.made.Text(text) }

// Chunk implements strategy.Observer.
func (r *recording) Chunk(chunk []byte) { r.made.Chunk(chunk) }

// Body implements strategy.Observer.
func (r *recording) Body(answer []byte) { r.made.Body(answer) }

// End implements strategy.Observer.
func (r *recording) End(e openai.Ending) { r.made.End(e) }

// entry is the answer that was taken down, once the cascade has said that it is whole, as it is kept and as it is
// read. Both are nil where it is not understood, or too large.
func (r *recording) entry(rc *receipt.Receipt, now time.Time) (*cache.Entry, *openai.Whole) {
	whole, err := r.made.Whole()
	if err != nil || rc == nil {
		return nil, nil
	}
	return &cache.Entry{
		Created: now.Truncate(time.Millisecond), Tier: string(rc.Tier), Acceptance: rc.Acceptance(), Finish: rc.Finish,
		Prompt: rc.PromptTokens, Accepted: rc.AcceptedTokens, Target: rc.TargetTokens, USD: rc.USD, Answer: whole.Append(nil),
	}, whole
}
