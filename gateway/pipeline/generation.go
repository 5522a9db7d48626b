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
	recorder     *recorder
	confirmation confirmation
}

func (q *request) newGeneration() *generation {
	return &generation{request: q, recorder: newRecorder(q.Body.Request, q.maxAnswer())}
}

// maxAnswer is the size in bytes up to which an answer is taken down.
func (q *request) maxAnswer() int { return max(q.cfg.MaxEntryBytes, cache.MinSharedBytes) }

// settle hands a whole answer to complete, with how it is kept; nil is not, or not yet.
func (g *generation) settle(e *cache.Entry, w *openai.Whole, complete func(e *cache.Entry, keep func(then func()))) {
	keep := func(then func()) { g.p.o.Store.Put(g.share.key, e, g.cfg.TTL, then) }
	switch {
	case !g.mayKeep(e, w):
		complete(e, nil)
	case fromWarmup(e):
		complete(e, nil)
		g.confirmation.onConfirmed(func() { keep(nil) })
	default:
		complete(e, keep)
	}
}

// mayKeep says whether a whole answer may serve others later.
func (g *generation) mayKeep(e *cache.Entry, w *openai.Whole) bool {
	if !g.share.cacheable || len(e.Answer) > g.cfg.MaxEntryBytes || !g.share.allows(e) || receipt.IsPressure(e.Acceptance) {
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

// confirmFunc is whom an audit tells that the target stands by the answer; nil where no answer waits for that.
func (g *generation) confirmFunc() func() {
	if !g.share.cacheable || g.draftConfig.Mode != plan.ModeRisk || !g.draftConfig.Risk.Warmup {
		return nil
	}
	return g.confirmation.confirm
}

// confirmation is whether an audit has found that the target stands by an answer. The audit may be over before the answer is, or
// after. A draft of a warm-up is kept then, and never otherwise.
type confirmation struct {
	mu        sync.Mutex
	confirmed bool
	next      func()
}

// confirm says that it has.
func (v *confirmation) confirm() {
	v.mu.Lock()
	v.confirmed = true
	next := v.next
	v.next = nil
	v.mu.Unlock()
	if next != nil {
		next()
	}
}

// onConfirmed calls next when it has; nothing calls next where it never does.
func (v *confirmation) onConfirmed(next func()) {
	v.mu.Lock()
	good := v.confirmed
	if !good {
		v.next = next
	}
	v.mu.Unlock()
	if good {
		next()
	}
}

// recorder takes an answer down while it is made.
type recorder struct{ answer *openai.Assembler }

var _ strategy.Observer = (*recorder)(nil)

func newRecorder(r *openai.Request, maxBytes int) *recorder {
	made := openai.NewAssembler(r.Kind, maxBytes)
	made.Want(r.Choices())
	return &recorder{made}
}

// Text implements strategy.Observer.
func (r *recorder) Text(text []byte) { r.answer.Text(text) }

// Chunk implements strategy.Observer.
func (r *recorder) Chunk(chunk []byte) { r.answer.Chunk(chunk) }

// Body implements strategy.Observer.
func (r *recorder) Body(answer []byte) { r.answer.Body(answer) }

// End implements strategy.Observer.
func (r *recorder) End(e openai.Ending) { r.answer.End(e) }

// entry is the answer that was taken down, once the cascade has said that it is whole, as it is kept and as it is
// read. Both are nil where it is not understood, or too large.
func (r *recorder) entry(rc *receipt.Receipt, now time.Time) (*cache.Entry, *openai.Whole) {
	whole, err := r.answer.Whole()
	if err != nil || rc == nil {
		return nil, nil
	}
	return &cache.Entry{
		Created: now.Truncate(time.Millisecond), Tier: string(rc.Tier), Acceptance: rc.Acceptance(), Finish: rc.Finish,
		Prompt: rc.PromptTokens, Accepted: rc.AcceptedTokens, Target: rc.TargetTokens, USD: rc.USD, Answer: whole.Append(nil),
	}, whole
}
