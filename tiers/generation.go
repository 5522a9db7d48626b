package tiers

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// generation is an answer that is made for a request and may be shared.
type generation struct {
	*request
	recorder     recorder
	confirmation confirmation
}

func (rq *request) newGeneration() *generation {
	return &generation{request: rq, recorder: newRecorder(rq.Body, rq.maxAnswer())}
}

// maxAnswer is the maximum size in bytes of an answer that is recorded.
func (rq *request) maxAnswer() int { return max(rq.cfg.MaxEntryBytes, minSharedBytes) }

// settle calls complete with a whole answer and its cache entry, which is nil if it must not be stored (yet).
func (g *generation) settle(e *cache.Entry, w *openai.Whole, complete func(e *cache.Entry, keep func(then func()))) {
	keep := func(then func()) { g.p.o.Store.Put(g.key, e, g.cfg.TTL, then) }
	switch {
	case !g.mayKeep(e, w):
		complete(e, nil)
	case g.confirmation.awaited:
		complete(e, nil)
		g.confirmation.onOpinion(func(good bool) {
			if good {
				keep(nil)
				return
			}
			g.p.rejected.add(g.key) // the next one is the target's, and can be kept
		})
	default:
		complete(e, keep)
	}
}

// mayKeep reports whether a whole answer may be stored for others.
func (g *generation) mayKeep(e *cache.Entry, w *openai.Whole) bool {
	if !g.cacheable || len(e.Answer) > g.cfg.MaxEntryBytes || !g.allows(e) {
		return false
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		switch {
		case !c.Complete(), len(c.Calls) > 0:
			return false
		case g.Body.JSON && c.Finish == "stop" && !json.Valid(c.Text):
			return false
		}
	}
	return true
}

// awaits returns what the cascade tells when the answer must wait for the target's opinion of its draft; nil if the answer
// is not stored anyway.
func (g *generation) awaits() *confirmation {
	if !g.cacheable {
		return nil
	}
	return &g.confirmation
}

// confirmation records whether an answer must wait for the target's opinion of its draft before it is stored, and that
// opinion. It may be known before or after the answer has ended.
type confirmation struct {
	awaited bool // it must wait: written before the answer has ended, or not at all; read afterwards

	mu      sync.Mutex
	known   bool
	good    bool
	opinion func(good bool) // nil until it is wanted
}

// confirm says whether the target accepts the draft. It is called once, before the answer has ended or later, or never.
func (c *confirmation) confirm(good bool) {
	c.mu.Lock()
	if c.known {
		c.mu.Unlock()
		return
	}
	c.known, c.good = true, good
	opinion := c.opinion
	c.opinion = nil
	c.mu.Unlock()
	if opinion != nil {
		opinion(good)
	}
}

// onOpinion calls opinion once the target's opinion is known, or never.
func (c *confirmation) onOpinion(opinion func(good bool)) {
	c.mu.Lock()
	known, good := c.known, c.good
	if !known {
		c.opinion = opinion
	}
	c.mu.Unlock()
	if known {
		opinion(good)
	}
}

// recorder records an answer while it is made.
type recorder struct{ *openai.Assembler }

var _ Observer = (*recorder)(nil)

func newRecorder(r *openai.Request, maxBytes int) recorder {
	made := recorder{openai.NewAssembler(r.Kind, maxBytes)}
	made.Want(r.Choices())
	return made
}

// entry returns the recorded answer, after the cascade has reported that it is complete: as a cache entry and
// as it is read. Both are nil if it cannot be parsed or is too large.
func (r *recorder) entry(rc *Receipt, now time.Time) (*cache.Entry, *openai.Whole) {
	if rc != nil && rc.Tier == plan.Fallback { // whoever asks next is answered by the operator's own pools, if they can
		return nil, nil
	}
	whole, err := r.Whole()
	if err != nil || rc == nil {
		return nil, nil
	}
	return &cache.Entry{
		Created: now.Truncate(time.Millisecond), Tier: string(rc.Tier), Acceptance: rc.Acceptance(), Finish: rc.Finish,
		Prompt: rc.PromptTokens, Accepted: rc.AcceptedTokens, Target: rc.TargetTokens, USD: rc.USD, Answer: whole.Append(nil),
	}, whole
}

// maxRejectedKeys bounds one generation of rejected keys: 4,096 of 80 bytes.
const maxRejectedKeys = 4096

// rejectedKeys are the keys of requests whose last draft was served and then rejected by the target. The next such request
// is answered by the target: another draft would probably be rejected, too, so each repeat would get a wrong answer.
// The zero value is ready. When a generation is full the one before it is forgotten. Other replicas do not know these
// keys, but find the target's answer in the shared cache.
type rejectedKeys struct {
	mu         sync.Mutex
	young, old map[cache.Key]struct{}
}

// add adds a key.
func (r *rejectedKeys) add(k cache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= maxRejectedKeys {
		r.young, r.old = make(map[cache.Key]struct{}), r.young
	}
	r.young[k] = struct{}{}
}

// has reports whether a key was added and is not forgotten.
func (r *rejectedKeys) has(k cache.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[k]; ok {
		return true
	}
	_, ok := r.old[k]
	return ok
}
