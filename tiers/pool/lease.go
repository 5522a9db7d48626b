package pool

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/tiers/pool/capacity"
	"github.com/foregate/foregate/tiers/prefix"
)

// Lease is one request's place on a backend. Done must be called always. All
// methods may be called from any goroutine. It must not be copied once picked.
type Lease struct {
	pool    *Pool
	backend *backend
	rank    int
	key     prefix.Key
	bytes   int  // of the prompt's text; 0 where its length was exact
	answers int  // that it is asked for, at least 1
	kind    int  // of the answer
	spare   bool // nobody waits for it at this pool alone

	request capacity.Request        // guarded by Pool.mu, like what follows
	lost    context.CancelCauseFunc // called when the request is to move; nil is not at all
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

// MarkAlive says that a token has just come. It costs next to nothing and may be called
// for every read.
func (l *Lease) MarkAlive() { l.pool.noteTokens(l.backend) }

// CountToken says that one more token, or chunk of the answer, has come. It costs next to
// nothing.
func (l *Lease) CountToken() { l.request.CountToken() }

// WantsBody reports whether somebody wants to know what is sent.
func (l *Lease) WantsBody() bool {
	_, nobody := l.pool.o.Index.(unindexed)
	return !nobody && l.key != 0
}

// LearnBody tells what was sent there, where somebody wants to know; body must not change
// any more.
func (l *Lease) LearnBody(body []byte) {
	if l.key != 0 {
		l.pool.o.Index.Learn(l.key, l.URL(), body)
	}
}

// FirstToken says that the prefill has finished: the prompt no longer queues,
// and what it took is learned. It is for the first generated token as it comes;
// for an answer that comes in one piece, and so after the decoding too, call
// Done alone.
func (l *Lease) FirstToken() {
	now := l.pool.o.Now()
	l.MarkAlive()
	l.began(now)
	l.pool.o.OnCapacity() // the next prompt may come
}

func (l *Lease) began(now time.Time) {
	p, b := l.pool, l.backend
	p.mu.Lock()
	defer p.mu.Unlock()
	l.lost = nil
	tokens, first := b.account.FirstToken(&l.request, now)
	if !first {
		return
	}
	b.health.MarkServed(now)
	b.reachability.MarkAnswered(now)
	b.speed.LearnPrefill(tokens, now.Sub(l.request.Began))
	p.units.Prompt(tokens, now.Sub(l.request.Began))
}

// SetPromptTokens tells how many tokens the prompt really had: what is held is put right, and
// the next estimates.
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

// ReportRefused says that no connection could be made (refused, no such host): the
// backend is out at once, until a scrape or a probe of its health succeeds. A
// client that left is no refusal and changes nothing.
func (l *Lease) ReportRefused(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err == nil {
		err = errors.New("connection refused")
	}
	l.pool.setDown(l.backend, err)
}

// ReportFailed says that the call failed by the backend's fault: until it answers again it
// draws less traffic, however fast it fails.
func (l *Lease) ReportFailed() {
	p := l.pool
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.backend.health.RecordCall(true, now)
}

// Done gives the place back; generated is the number of tokens that came, 0 if
// unknown. Only the first call counts. usd is what the request cost: its share of the
// backend's price while it was there, with as many others as are there now.
func (l *Lease) Done(generated int) (usd float64) {
	usd, first := l.release(generated)
	if first {
		l.backend.metrics.inflight.Dec()
		l.pool.o.OnCapacity()
	}
	return usd
}

// release is Done within the pool. It reports whether this is the first call.
func (l *Lease) release(generated int) (usd float64, first bool) {
	p, b, r := l.pool, l.backend, &l.request
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.IsEnded() {
		return 0, false
	}
	all := b.account.All()
	usd = now.Sub(r.Began).Hours() * p.o.USDPerHour / float64(max(all.Requests, b.reading.Running, 1))
	if !r.FirstToken().IsZero() {
		tokens, took := float64(generated-1), now.Sub(r.FirstToken())
		b.speed.LearnDecode(tokens, took)
		if b.pace == 0 { // readings tell it of all requests, and better
			p.units.Answer(float64(max(all.Requests-all.Waiting, b.reading.Running, 1)), tokens, took, now)
		}
	}
	if !b.gone {
		p.warm.Push(b.number, generated)
	}
	if generated > 0 {
		p.outputs.Learn(l.kind, r.MaxOutput/l.answers, generated/l.answers)
	}
	p.freed.Add(float64(r.Totals().Held+generated), now)
	b.account.End(r)
	return usd, true
}
