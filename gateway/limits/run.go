package limits

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// flushInterval keeps the number of settling round trips far below that of requests. The delay is small
	// compared with a token burst of three seconds' worth.
	flushInterval  = 250 * time.Millisecond
	probeInterval  = 100 * time.Millisecond // between checks whether a probe is due
	maxCorrections = 10_000                 // tenants with something to settle
	flushBatch     = 256                    // corrections in one round trip
)

// corrections are the changes that Redis must be told, summed by tenant.
type corrections struct {
	mu   sync.Mutex
	more map[string]correction
}

type correction struct {
	limit Limit
	amounts
	kept time.Time // since when it waits for an unavailable Redis; zero: it does not
}

// remaining is what remains of a correction: a charge drains also while its refund waits.
func (c correction) remaining(now time.Time) amounts {
	if c.kept.IsZero() {
		return c.amounts
	}
	w, minutes := c.limit.shared(), now.Sub(c.kept).Minutes()
	less := func(n int, l rate) int {
		if n >= 0 {
			return n
		}
		return min(0, n+int(minutes*l.perMinute))
	}
	return amounts{less(c.requests, w.requests), less(c.tokens, w.tokens), less(c.high, w.high)}
}

// correct queues a correction; if the queue is full, it is dropped and counted.
func (l *Limiter) correct(tenant string, c correction) {
	q := &l.corrections
	q.mu.Lock()
	defer q.mu.Unlock()
	was, ok := q.more[tenant]
	switch {
	case ok:
		c.amounts = c.plus(was.amounts)
		if c.kept.IsZero() {
			c.kept = was.kept
		}
	case len(q.more) >= maxCorrections:
		l.metrics.dropped.Inc()
		return
	case q.more == nil:
		q.more = map[string]correction{}
	}
	q.more[tenant] = c
}

func (q *corrections) take() map[string]correction {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.more
	q.more = nil
	return all
}

// Run settles tokens in Redis every 250 ms, and probes an unavailable Redis, until ctx ends. Then it settles
// the rest and waits for calls in progress, at most a second, and returns nil.
func (l *Limiter) Run(ctx context.Context) error {
	if l.redis == nil {
		<-ctx.Done()
		return nil
	}
	whole := context.WithoutCancel(ctx)
	l.inBackground(whole, func(ctx context.Context) error { return l.scripts.Load(ctx, keyLimit) }) // a failure shows at the first request
	flush, try := time.NewTicker(flushInterval), time.NewTicker(probeInterval)
	defer flush.Stop()
	defer try.Stop()
	for {
		select {
		case <-ctx.Done():
			l.flush(whole)
			l.asker.Drain(time.Second)
			return nil
		case <-flush.C:
			l.flush(whole)
		case <-try.C:
			if l.asker.ProbeDue() {
				l.probe(whole)
			}
		}
	}
}

func (l *Limiter) inBackground(ctx context.Context, do func(context.Context) error) bool {
	bounded, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	return do(bounded) == nil
}

// probe tests an unavailable Redis like a request: Redis must write, and answer in time. It tries twice,
// because the first try must open a connection.
func (l *Limiter) probe(ctx context.Context) {
	ask := func(ctx context.Context) error {
		_, err := l.ask(ctx, keyProbe, Limit{RPM: 1}.shared(), charge{how: howSettle})
		if errors.Is(err, errKey) {
			return nil // it answers
		}
		return err
	}
	good := l.inBackground(ctx, ask)
	if good {
		began := l.now()
		good = l.inBackground(ctx, ask) && l.now().Sub(began) <= l.budget()
	}
	l.asker.Probed(good)
	if good {
		l.log.Info().Msg("tenants' limits are counted over all replicas again")
	}
}

// flush tells Redis the corrections. While Redis is unavailable, refunds wait, because the charges in Redis
// remain until they have drained. Charges are dropped, because they are outdated when Redis returns.
func (l *Limiter) flush(ctx context.Context) {
	all, now := l.corrections.take(), l.now()
	if len(all) == 0 {
		return
	}
	if l.asker.Away() {
		for name, c := range all {
			c.amounts = c.refunds()
			if c.remaining(now) == (amounts{}) {
				l.metrics.dropped.Inc()
				continue
			}
			if c.kept.IsZero() {
				c.kept = now
			}
			l.correct(name, c)
		}
		return
	}
	part := make(map[string]correction, min(len(all), flushBatch))
	for name, c := range all {
		c.amounts, c.kept = c.remaining(now), time.Time{}
		part[name] = c
		if len(part) == flushBatch {
			l.settle(ctx, part)
			clear(part)
		}
	}
	l.settle(ctx, part)
}

// settle makes one round trip; two more if Redis does not know the script. Failed corrections are dropped.
func (l *Limiter) settle(ctx context.Context, part map[string]correction) {
	if len(part) == 0 {
		return
	}
	pipe := l.scripts.Pipeline()
	for name, c := range part {
		limitScript.EvalSha(ctx, pipe, []string{keyLimit + name}, scriptArgs(c.limit.shared(), charge{amounts: c.amounts, how: howSettle})...)
	}
	cmds := pipe.Cmds()
	_ = l.scripts.Exec(ctx, pipe, backgroundTime) // each command has its own error
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			l.metrics.dropped.Inc()
		}
	}
}
