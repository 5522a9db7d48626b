package pool

import (
	"context"
	"time"
)

// late is the relative delay of a timeout from which this replica counts as slow, not the backend as silent.
const late = 0.2

// noteUnanswered records that b did not answer a question asked at the given time. If the timeout itself fired late,
// this replica is slow and nothing is recorded. A backend that is silent for twice the suspect time is down.
func (p *Pool) noteUnanswered(b *backend, asked time.Time) {
	now, timeout := p.o.Now(), p.o.ScrapeTimeout
	slow := now.Sub(asked) > timeout+time.Duration(late*float64(timeout))
	out := false
	p.locked(func() {
		if slow {
			b.health.markAnswered()
		} else {
			b.health.markUnanswered(asked, now, b.load(b.reading.At))
		}
		out = b.health.isOut()
	})
	if out {
		p.setDown(b, errSilent)
	}
	p.release(b)
}

// silentStream is the whole silence after which nobody waits for the rest of an answer: a process that was stopped for
// less carries on.
const silentStream = 4 * time.Second

// release cancels the requests at a lost backend so that they move, or end where nobody else can answer them.
func (p *Pool) release(b *backend) {
	lost := false
	p.locked(func() { lost = b.health.isLost() })
	if !lost {
		return
	}
	better, now := p.hasBetter(b), p.o.Now()
	var moves []context.CancelCauseFunc
	p.locked(func() {
		for _, l := range b.account.leases {
			if l.lost != nil && l.leaves(better, now) {
				moves = append(moves, l.lost)
				l.lost = nil
			}
		}
	})
	for _, move := range moves {
		move(ErrLost)
	}
}

// leaves reports whether a request at a lost backend is cancelled. better says that another backend would do better. An
// answer in one piece may be under way for long when its backend falls silent, so it has the time of a stream. The caller
// holds mu.
func (l *Lease) leaves(better bool, now time.Time) bool {
	b := l.backend
	switch since := b.health.unansweredSince; {
	case better && !l.stays, l.spare:
		return true
	case b.down != errSilent:
		return false
	case !l.first.IsZero(), l.whole && l.start.Before(since.Add(-time.Second)):
		return now.Sub(since) >= silentStream
	}
	return true
}

// hasBetter reports whether another backend answers and is neither out, suspect, broken nor late.
func (p *Pool) hasBetter(than *backend) (found bool) {
	now := p.o.Now()
	for _, b := range *p.set.Load() {
		if b == than || p.o.Open(b.id) {
			continue
		}
		p.locked(func() {
			found = b.isReachable(now) && !p.out(b) && !b.health.isSuspect() && !b.health.hasPending()
		})
		if found {
			return true
		}
	}
	return false
}
