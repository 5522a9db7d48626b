package pool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// Lease is one request's place on a backend. Done must be called always. All
// methods may be called from any goroutine. It must not be copied once picked.
type Lease struct {
	pool    *Pool
	backend *backend
	start   time.Time
	ahead   float64 // tokens that were queued before this one's
	rank    int
	key     prefix.Key
	bytes   int // of the prompt's text; 0 where its length was exact
	parts   [prefix.MostParts]prefix.Part
	shared  int     // tokens of the prompt that another request there held already
	answers int     // that it is asked for, at least 1; what follows is of all of them
	output  int     // tokens that the answer is expected to have
	spread  float64 // variance of that
	kind    int     // of the answer
	most    int     // tokens that it may have at most; 0 is unknown
	whole   bool    // it comes in one piece
	spare   bool    // nobody waits for it at this pool alone

	came atomic.Int32 // tokens of the answer so far, about

	// Guarded by Pool.mu.
	at    int       // its place among the backend's leases
	part  tally     // what is still counted of it
	first time.Time // when the first token came; zero until then
	done  bool
	lost  context.CancelCauseFunc // called when the request is to move; nil is not at all
}

// Backend is the backend's id: its host and port within [a-z0-9.-]{1,64},
// stable, and unique in the pool.
func (l *Lease) Backend() string { return l.backend.id }

// URL is the backend's base URL without a trailing slash.
func (l *Lease) URL() string { return l.backend.url }

// Rank is the engine behind the URL that the request should go to, −1 where the
// server may choose.
func (l *Lease) Rank() int { return l.rank }

// ErrLost is the cause with which a call is cancelled whose backend seems to hang.
var ErrLost = errors.New("the backend seems to hang")

// OnLost has cancel called with [ErrLost], once at most, when the backend answers nothing
// for a second, or its engine makes no step for longer than any should take, and another
// backend would do better; of a demand that is Spare, whether there is another or not. It
// holds until the first token; who can carry on elsewhere behind that says so again. nil
// takes it back.
func (l *Lease) OnLost(cancel context.CancelCauseFunc) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.lost = cancel
}

// Answered says that a token has just come. It costs next to nothing and may be called
// for every read.
func (l *Lease) Answered() { l.backend.vitals.answered(l.pool.now) }

// Came says that one more token, or chunk of the answer, has come. It costs next to
// nothing.
func (l *Lease) Came() { l.came.Add(1) }

// Sent tells what was sent there, where somebody wants to know; body must not change
// any more.
func (l *Lease) Sent(body []byte) {
	if l.pool.index != nil && l.key != 0 {
		l.pool.index.Learn(l.key, l.URL(), body)
	}
}

// FirstToken says that the prefill has finished: the prompt no longer queues,
// and what it took is learned. It is for the first generated token as it comes;
// for an answer that comes in one piece, and so after the decoding too, call
// Done alone.
func (l *Lease) FirstToken() {
	p, b := l.pool, l.backend
	now := p.now()
	l.Answered()
	defer p.moreRoom() // the next prompt may come
	p.mu.Lock()
	defer p.mu.Unlock()
	l.lost = nil
	if l.done || !l.first.IsZero() {
		return
	}
	l.first = now
	b.vitals.served = now
	b.contact.answered(now)
	b.vitals.fault(false, now)
	b.rates.learnPrefill(float64(l.part.queued)+l.ahead, now.Sub(l.start))
	p.units.prompt(float64(l.part.queued)+l.ahead, now.Sub(l.start))
	finished := tally{queued: l.part.queued, waiting: 1}
	l.part.sub(finished)
	b.prefillSince = now // one after the other: the next has only begun
	b.end(finished, l.start)
}

// Counted tells how many tokens the prompt really had: what is held is put right, and
// the next estimates.
func (l *Lease) Counted(prompt int) {
	if prompt <= 0 {
		return
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.bytes > 0 {
		if factor := p.length.learn(l.bytes, prompt); factor != 1 {
			p.warm.Rescale(factor)
		}
	}
	if l.done {
		return
	}
	held := max(prompt-l.shared, 0)
	off := tally{held: l.part.held - held, tokens: l.part.held - held}
	if l.first.IsZero() {
		off.queued = min(off.held, l.part.queued)
	}
	l.part.sub(off)
	l.backend.end(off, l.start)
}

// Refused says that no connection could be made (refused, no such host): the
// backend is out at once, until a scrape or a probe of its health succeeds. A
// client that left is no refusal and changes nothing.
func (l *Lease) Refused(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err == nil {
		err = errors.New("connection refused")
	}
	l.pool.setDown(l.backend, err)
}

// Failed says that the call failed by the backend's fault: until it answers again it
// draws less traffic, however fast it fails.
func (l *Lease) Failed() {
	p := l.pool
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.backend.vitals.fault(true, now)
}

// Done gives the place back; generated is the number of tokens that came, 0 if
// unknown. Only the first call counts. usd is what the request cost: its share of the
// backend's price while it was there, with as many others as are there now.
func (l *Lease) Done(generated int) (usd float64) {
	usd, first := l.leave(generated)
	if first {
		l.backend.metrics.inflight.Dec()
		l.pool.moreRoom()
	}
	return usd
}

// leave is Done within the pool. It reports whether this is the first call.
func (l *Lease) leave(generated int) (usd float64, first bool) {
	p, b := l.pool, l.backend
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.done {
		return 0, false
	}
	l.done = true
	usd = now.Sub(l.start).Hours() * p.usdPerHour / float64(max(b.all.requests, b.reading.Running, 1))
	if !l.first.IsZero() {
		b.rates.learnDecode(float64(generated-1), now.Sub(l.first))
		p.units.answer(b, float64(generated-1), now.Sub(l.first), now)
	}
	if !b.gone {
		p.warm.Push(b.number, generated)
	}
	b.end(l.part, l.start)
	b.under.end(l)
	p.ended(l, generated, now)
	return usd, true
}
