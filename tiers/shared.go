package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/world"
)

// generationID identifies identical requests that may share one generation. Requests of different classes do
// not share: one of priority low may wait longer than one of priority high. Streamed and whole answers do not
// share, because a whole answer arrives only at the end.
type generationID struct {
	Key    cache.Key
	Class  int8 // of priority
	Stream bool
}

// sharedGeneration is one answer in progress, with its subscribers. All of it is guarded by [Generations.mu].
type sharedGeneration struct {
	owner *Generations
	id    generationID

	changed     world.Signal // set at the next change; nil while nobody waits
	over        bool         // the answer is whole, or failed
	text        []byte       // of the answer so far: append-only, so that parts of it can be shared
	opaque      bool         // the answer is more than text: only the whole can be shared
	entry       *cache.Entry // of a whole answer
	err         error        // of one that failed
	subscribers int          // requests that still want the answer; with none it is cancelled
	cancel      context.CancelCauseFunc
}

// change changes a generation, and wakes those who wait. If no request wants the answer any more, it cancels its making. It
// does both without the lock, because both may resume another request.
func (g *sharedGeneration) change(do func()) {
	g.owner.mu.Lock()
	do()
	changed, cancel := g.changed, context.CancelCauseFunc(nil)
	g.changed = nil
	if g.subscribers == 0 {
		cancel, g.cancel = g.cancel, nil
		g.owner.forget(g)
	}
	g.owner.mu.Unlock()
	if changed != nil {
		changed.Set()
	}
	if cancel != nil {
		cancel(context.Canceled)
	}
}

// begin reports that the answer is being made; cancel cancels that, at once if no request wants it any more.
func (g *sharedGeneration) begin(cancel context.CancelCauseFunc) {
	g.change(func() { g.cancel = cancel })
}

// append sends more text to the followers.
func (g *sharedGeneration) append(text []byte) { g.change(func() { g.text = append(g.text, text...) }) }

// setOpaque reports that the answer is more than text, so that it can only be shared when it is whole.
func (g *sharedGeneration) setOpaque() { g.change(func() { g.opaque = true }) }

// complete gives all subscribers the answer. keep stores it and calls then afterwards; nil: it is not stored. Requests that
// come until then get the answer, too.
func (g *sharedGeneration) complete(e *cache.Entry, keep func(then func())) {
	g.change(func() { g.end(e, nil) })
	done := func() { g.change(func() { g.owner.forget(g) }) }
	if keep == nil {
		done()
		return
	}
	keep(done)
}

// fail reports that the answer could not be made. The first call counts.
func (g *sharedGeneration) fail(err error) {
	g.change(func() {
		g.end(nil, err)
		g.owner.forget(g)
	})
}

// end ends a generation that is not over. The caller holds mu.
func (g *sharedGeneration) end(e *cache.Entry, err error) {
	if !g.over {
		g.over, g.entry, g.err, g.cancel = true, e, err, nil
	}
}

// subscriber is one request's part in a generation. Only one goroutine may use it, except for Depart.
type subscriber struct {
	*sharedGeneration
	leads bool   // it was the first, and makes the answer
	sent  []byte // the text that the request has received

	departed bool // guarded by Generations.mu
}

// errLate says that nothing of a shared answer has come for too long.
var errLate = errors.New("an identical request takes too long")

// next waits for more text of the answer, or for its end, where entry is the answer or err why there is none. The other errors
// are the cause of ctx, and errLate where nothing has come until the deadline.
func (s *subscriber) next(ctx context.Context, deadline time.Time) (text []byte, entry *cache.Entry, err error) {
	w, waiting := s.owner.world, ctx
	if len(s.sent) == 0 {
		bounded, cancel := w.WithTimeout(ctx, deadline.Sub(w.Now()))
		defer cancel()
		waiting = bounded
	}
	for {
		text, changed := s.poll()
		switch {
		case text != nil:
			return text, nil, nil
		case changed == nil:
			return nil, s.entry, s.err
		}
		late := changed.Wait(waiting)
		switch {
		case late == nil:
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		default:
			return nil, nil, errLate
		}
	}
}

// poll returns text that the request has not received, or the signal to wait for; neither if the generation is over.
func (s *subscriber) poll() (text []byte, changed world.Signal) {
	fresh := s.owner.world.NewSignal() // made without the lock
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	from := len(s.sent)
	if to := from + wholeRunes(s.text[from:]); to > from && s.id.Stream && !s.opaque && !s.over {
		s.sent = s.text[:to:to] // with a limited capacity, so that an append cannot overwrite it
		return s.sent[from:], nil
	}
	if s.over {
		return nil, nil
	}
	if s.changed == nil {
		s.changed = fresh
	}
	return nil, s.changed
}

// Depart removes the subscriber: its client has left, has its answer, or gets it in another way. If no other
// request wants the answer, its generation is cancelled; otherwise it continues. Depart may be called again.
func (s *subscriber) Depart() {
	s.change(func() {
		if s.departed {
			return
		}
		s.departed = true
		s.subscribers--
		g, tenant := s.owner, s.id.Key.Tenant()
		if g.subscribers[tenant]--; g.subscribers[tenant] == 0 {
			delete(g.subscribers, tenant)
		}
	})
}

// isShared reports whether another request wants the answer.
func (s *subscriber) isShared() bool {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	others := s.subscribers
	if !s.departed {
		others--
	}
	return others > 0
}

// wholeRunes is the length of the text up to the last complete character.
func wholeRunes(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}

const (
	// maxOfTenant bounds the requests of one tenant that share answers: while they wait they occupy the gateway's
	// request slots, but none of the tenant's own.
	maxOfTenant = 1024
	// minSharedBytes is the size of an answer, in bytes, up to which it is always shared with waiting requests, even
	// if it is too large to be stored.
	minSharedBytes = 1 << 20
)

// Generations joins identical requests in progress in this process. It is safe for concurrent use.
type Generations struct {
	world world.World // for waits

	mu          sync.Mutex // of all generations: it is held for less than a microsecond a token
	all         map[generationID]*sharedGeneration
	subscribers map[[16]byte]int // by tenant
}

// NewGenerations makes Generations.
func NewGenerations(w world.World) *Generations {
	return &Generations{world: w, all: map[generationID]*sharedGeneration{}, subscribers: map[[16]byte]int{}}
}

// join adds a subscriber to the identical requests in progress; the first one leads. nil means that there are too many
// of its tenant already, and all that share a generation are of one.
func (g *Generations) join(id generationID) *subscriber {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.all[id]
	if g.subscribers[id.Key.Tenant()] >= maxOfTenant {
		return nil
	}
	leads := f == nil
	if leads {
		f = &sharedGeneration{owner: g, id: id}
		g.all[id] = f
	}
	f.subscribers++
	g.subscribers[id.Key.Tenant()]++
	return &subscriber{sharedGeneration: f, leads: leads}
}

// Subscribers is the number of requests that share an answer, or may.
func (g *Generations) Subscribers() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.subscribers {
		n += of
	}
	return n
}

// forget makes the next identical request start a new generation; mu is held.
func (g *Generations) forget(f *sharedGeneration) {
	if g.all[f.id] == f {
		delete(g.all, f.id)
	}
}

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
