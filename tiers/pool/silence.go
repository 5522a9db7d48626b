package pool

import (
	"context"
	"errors"
	"time"
)

// late is by how much of its time a question may end late before it is this replica
// that is slow, and not the backend that is silent.
const late = 0.2

// checkHealth asks a backend whose metrics did not come in time for its health: slow metrics
// are no silence. Any answer is one.
func (p *Pool) checkHealth(ctx context.Context, b *backend) {
	asked := p.o.Now()
	err := p.scraper.Health(ctx, b.url)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		p.noteUnanswered(b, asked)
	default:
		p.noteAnswer(b, err)
	}
}

// noteUnanswered notes that b has not answered a question that was asked at the given time.
// A question that ended late says that this replica is slow, and nothing of b: it is as if
// nothing had been asked. Who has been silent for twice as long as a suspect is down.
func (p *Pool) noteUnanswered(b *backend, asked time.Time) {
	now, timeout := p.o.Now(), p.o.Pressure().Timeout
	slow := now.Sub(asked) > timeout+time.Duration(late*float64(timeout))
	out := false
	p.updateHealth(b, func() {
		if slow {
			b.health.MarkAnswered()
		} else {
			b.health.MarkUnanswered(asked, now, b.load())
		}
		out = b.health.IsOut()
	})
	p.release(b)
	if out {
		p.setDown(b, errSilent)
	}
}

// release has the requests that are under way at a backend that is lost move to others,
// where there are such, or where nobody waits for this pool.
func (p *Pool) release(b *backend) {
	lost := false
	p.locked(func() { lost = b.health.IsLost() })
	if !lost {
		return
	}
	for _, move := range p.moves(b, p.hasBetter(b)) {
		move(ErrLost)
	}
}

// moves are what has the requests at b move, each told once; better says that there is a better
// backend for them.
func (p *Pool) moves(b *backend, better bool) (moves []context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range b.account.Requests() {
		if l := r.Owner.(*Lease); l.lost != nil && (better || l.spare) {
			moves = append(moves, l.lost)
			l.lost = nil
		}
	}
	return moves
}

// hasBetter reports whether another backend answers, is neither out nor suspect nor broken, and
// owes no answer.
func (p *Pool) hasBetter(than *backend) (found bool) {
	now, absent := p.o.Now(), p.o.Pressure().UnknownAfter
	for _, b := range *p.set.Load() {
		if b == than || p.o.Open(b.id) {
			continue
		}
		p.locked(func() {
			found = b.reachability.IsReachable(now, absent) && !b.out(now) && !b.health.IsSuspect() && !b.health.HasPending()
		})
		if found {
			return true
		}
	}
	return false
}
