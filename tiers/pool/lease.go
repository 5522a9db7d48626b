package pool

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pool/estimate"
)

// Lease is one request's slot on a backend. Call Done in any case. All methods may be called from any goroutine. It must
// not be copied after the pick.
type Lease struct {
	pool    *Pool
	backend *backend
	engine  dialect.Kind // of backend at the pick
	bytes   int          // of the prompt's text; 0: the token count was exact
	answers int          // requested answers, at least 1
	kind    int          // of the answer, for length estimates
	spare   bool         // Demand.Optional

	request estimate.Request        // guarded by Pool.mu, like the fields below
	lost    context.CancelCauseFunc // called when the request must leave the backend; nil: it was, or nobody waits for it
	stays   bool                    // no other backend can do the rest
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
func (l *Lease) CountToken() { l.request.CountToken() }

// FirstToken says that the prefill has finished: the prompt no longer queues, and the prefill speed is learned. Call it
// at the first generated token of a stream. For an answer in one piece call Done only.
func (l *Lease) FirstToken() {
	now := l.pool.o.Now()
	l.MarkAlive()
	l.began(now)
	l.pool.o.OnCapacity() // there may be capacity for the next prompt
}

func (l *Lease) began(now time.Time) {
	p, b := l.pool, l.backend
	p.mu.Lock()
	defer p.mu.Unlock()
	l.stays = true
	tokens, first := b.account.FirstToken(&l.request, now)
	if !first {
		return
	}
	b.health.MarkServed(now)
	b.reachability.MarkAnswered(now)
	b.speed.LearnPrefill(tokens, now.Sub(l.request.Began))
	p.units.Prompt(tokens, now.Sub(l.request.Began))
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
	l.backend.account.Count(&l.request, prompt)
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
	l.backend.health.RecordCall(true, now)
}

// ReportCredentials says that the backend accepts these credentials, because it began to answer, or with an error that it
// does not, or the gateway not its certificate. It is cheap.
func (l *Lease) ReportCredentials(use Use, shown *credentials.Credentials, err error) {
	l.pool.noteCredentials(l.backend, use, shown, err)
}

// Done releases the slot. generated is the number of tokens of the answer, 0 if unknown. Only the first call counts. usd
// is the request's cost: its share of the backend's price over its time there, divided by the requests that run there
// now.
func (l *Lease) Done(generated int) (usd float64) {
	usd, first := l.release(generated)
	if first {
		l.pool.o.OnCapacity()
	}
	return usd
}

// release is Done inside the pool. It reports whether this is the first call.
func (l *Lease) release(generated int) (usd float64, first bool) {
	p, b, r := l.pool, l.backend, &l.request
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.IsEnded() {
		return 0, false
	}
	all := b.account.All()
	usd = now.Sub(r.Began).Hours() * p.usdPerHour * float64(l.answers) / float64(max(all.Requests, b.reading.Running, 1))
	if !r.FirstToken().IsZero() {
		tokens, took := float64(generated/l.answers-1), now.Sub(r.FirstToken())
		b.speed.LearnDecode(tokens, took)
		if b.pace == 0 { // readings measure the speed over all requests
			p.units.Answer(float64(max(all.Requests-all.Waiting, b.reading.Running, 1)), tokens, took, now)
		}
	}
	if !b.removed {
		p.warm.Push(b.number, generated)
	}
	if generated > 0 {
		p.outputs.Learn(l.kind, r.MaxOutput/l.answers, generated/l.answers)
	}
	p.freed.Add(float64(r.Totals().PromptTokens+generated), now)
	b.account.End(r)
	return usd, true
}
