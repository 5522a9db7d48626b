package pool

import (
	"context"
	"errors"
	"time"
)

// asksHealth asks a backend whose metrics did not come in time for its health: slow metrics
// are no silence. Any answer is one.
func (p *Pool) asksHealth(ctx context.Context, b *backend) {
	asked := p.now()
	err := p.scraper.Health(ctx, b.url)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		p.unanswered(b, asked)
	default:
		p.settled(b, err)
	}
}

// unanswered notes that b has not answered a question that was asked at the given time.
// A question that ended late says that this replica is slow, and nothing of b: it is as if
// nothing had been asked. Who has been silent for twice as long as a suspect is down.
func (p *Pool) unanswered(b *backend, asked time.Time) {
	now, timeout := p.now(), p.pressure().OrDefaults().Timeout
	slow := now.Sub(asked) > timeout+time.Duration(late*float64(timeout))
	var was, is string
	out := false
	p.locked(func() {
		was = b.vitals.condition()
		if slow {
			b.vitals.speaks()
		} else {
			b.vitals.unanswered(asked, now, b.load())
		}
		is = b.vitals.condition()
		out = b.vitals.silent() && b.vitals.quiet >= outAfter*b.vitals.limit
	})
	p.turned(b, was, is)
	p.release(b)
	if out {
		p.setDown(b, errSilent)
	}
}

// answered notes that b answered a question.
func (p *Pool) answered(b *backend) { p.settled(b, nil) }

// settled notes that a question to b had an end in time. An error that came instead of an
// answer over HTTP, of a name that does not resolve, is no silence, and no contact either.
func (p *Pool) settled(b *backend, err error) {
	var was, is string
	p.locked(func() {
		was = b.vitals.condition()
		b.vitals.speaks()
		b.contact.ended(err, p.now())
		is = b.vitals.condition()
	})
	p.turned(b, was, is)
}

// release has the requests that are under way at a backend that is lost move to others,
// where there are such, or where nobody waits for this pool.
func (p *Pool) release(b *backend) {
	for _, move := range p.moves(b) {
		move(ErrLost)
	}
}

// moves are what has these requests move, each told once.
func (p *Pool) moves(b *backend) (moves []context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.vitals.lost() {
		return nil
	}
	better := p.better(b)
	for _, l := range b.under.leases {
		if l.lost != nil && (better || l.spare) {
			moves = append(moves, l.lost)
			l.lost = nil
		}
	}
	return moves
}

// better reports whether another backend answers, is neither out nor suspect nor broken, and
// owes no answer. The caller holds mu.
func (p *Pool) better(than *backend) bool {
	now, absent := p.now(), p.pressure().OrDefaults().Absent
	for _, b := range *p.set.Load() {
		if b != than && b.contact.reached(now, absent) && !b.out(now) && !b.vitals.suspect() && b.vitals.asked.IsZero() && !p.open(b.id) {
			return true
		}
	}
	return false
}
