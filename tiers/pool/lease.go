package pool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/prefix"
)

// Lease is one request's slot on a backend. Call Done in any case. All methods may be called from any goroutine. It must
// not be copied after the pick.
type Lease struct {
	pool    *Pool
	backend *backend
	engine  dialect.Kind // of backend at the pick
	bytes   int          // of the prompt's text; 0: the token count was exact
	answers int          // requested answers, at least 1; each is a sequence in the engine, and in totals
	kind    int          // of the answer, for length estimates
	spare   bool         // Demand.Optional

	start       time.Time
	ahead       float64 // prompt tokens that were queued before its own
	prompt      int     // tokens of its prompt, as far as they are known
	cachedShare float64 // of these, the share that is expected in the prefix cache, 0 … 1

	shared    int                          // tokens of its prompt that another request there held already
	output    int                          // tokens that all its answers are expected to have
	variance  float64                      // of that
	maxOutput int                          // tokens that they may have; 0 is unknown
	whole     bool                         // they come in one piece, so that nobody sees them begin
	parts     [prefix.MaxParts]prefix.Part // what the prompt begins with

	came atomic.Int32 // tokens of the answer so far, about

	// Guarded by Pool.mu.
	index  int                     // its place in account.leases
	totals totals                  // what is counted of it
	first  time.Time               // when the first token came; zero until then
	ended  bool                    // Done was called
	lost   context.CancelCauseFunc // called when the request must leave the backend; nil: it was, or nobody waits for it
	stays  bool                    // no other backend can do the rest
}

// Backend returns the backend's id: host and port in [a-z0-9.-]{1,64}, stable and unique in the pool.
func (l *Lease) Backend() string { return l.backend.id }

// URL returns the backend's base URL without a trailing slash.
func (l *Lease) URL() string { return l.backend.url }

// Engine returns the kind of the backend's engine; "" is not known yet.
func (l *Lease) Engine() dialect.Kind { return l.engine }

// ErrLost is the cause with which calls to a hanging backend are cancelled.
var ErrLost = errors.New("the backend seems to hang")

// OnLost registers cancel. It is called with [ErrLost], at most once, if the backend answers nothing for a second, or
// its engine makes no step for too long, and another backend would do better, unless the request stays; for an Optional
// demand also if none would. It is called in any case when the backend is down for its silence: at once for what waits
// for its first byte, after [silentStream] for an answer that has begun. An answer stays from its first token on; a caller
// that can continue it elsewhere calls OnLost again.
func (l *Lease) OnLost(cancel context.CancelCauseFunc, stays bool) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.lost, l.stays = cancel, stays
}

// MarkAlive says that a token has come. It is cheap and may be called for every read.
func (l *Lease) MarkAlive() { l.pool.noteTokens(l.backend) }

// CountToken counts one token, or chunk, of the answer. It is cheap.
func (l *Lease) CountToken() { l.came.Add(1) }

// FirstToken says that the prefill has finished: the prompt no longer queues, and the prefill speed is learned. Call it
// at the first generated token of a stream. For an answer in one piece call Done only.
func (l *Lease) FirstToken() {
	p, b, now := l.pool, l.backend, l.pool.o.Now()
	l.MarkAlive()
	p.locked(func() {
		l.stays = true
		tokens, first := b.account.firstToken(l, now)
		if !first {
			return
		}
		b.health.markServed(now)
		b.markAnswered(now)
		b.speed.LearnPrefill(tokens, now.Sub(l.start))
		p.units.Prompt(tokens, now.Sub(l.start))
	})
	p.o.OnCapacity() // there may be capacity for the next prompt
}

// SetPromptTokens sets the exact length of the prompt. It corrects the held tokens and later estimates.
func (l *Lease) SetPromptTokens(prompt int) {
	if prompt <= 0 {
		return
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.bytes > 0 {
		if factor := p.length.Learn(l.bytes, prompt); factor != 1 {
			p.warm.Rescale(factor)
		}
	}
	l.prompt = prompt
	l.backend.account.correct(l, prompt)
}

// ReportRefused says that no connection could be made (refused, no such host). The backend is out at once, until a
// scrape or a health probe succeeds. A client's cancellation changes nothing.
func (l *Lease) ReportRefused(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err == nil {
		err = errors.New("connection refused")
	}
	l.pool.setDown(l.backend, err)
}

// ReportFailed says that the backend failed the call. It draws less traffic until it answers again.
func (l *Lease) ReportFailed() {
	p := l.pool
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.backend.health.recordCall(true, now)
}

// ReportCredentials says that the backend accepts these credentials, because it began to answer, or with an error that it
// does not, or the gateway not its certificate. It is cheap.
func (l *Lease) ReportCredentials(use Use, shown *credentials.Credentials, err error) {
	l.pool.noteCredentials(l.backend, use, shown, err)
}

// Done releases the slot. generated is the number of tokens of the answer, 0 if unknown. Only the first call counts.
func (l *Lease) Done(generated int) {
	p, b, now, first := l.pool, l.backend, l.pool.o.Now(), false
	p.locked(func() {
		if first = !l.ended; !first {
			return
		}
		all := &b.account.all
		if !l.first.IsZero() {
			tokens, took := float64(generated/l.answers-1), now.Sub(l.first)
			b.speed.LearnDecode(tokens, took)
			if b.pace == 0 { // readings measure the speed over all requests
				uncached := (1 - l.cachedShare) * float64(l.prompt) / float64(l.answers)
				p.units.Answer(float64(max(all.requests-all.waiting, b.reading.Running, 1)), uncached, tokens, took, now)
			}
		}
		p.warm.Push(b.cache, generated)
		if generated > 0 {
			p.outputs.Learn(l.kind, l.maxOutput/l.answers, generated/l.answers)
		}
		p.freed.Add(float64(l.totals.prompt+generated), now)
		b.account.end(l)
	})
	if first {
		p.o.OnCapacity()
	}
}
