package limits

import (
	"context"
	"sync"

	"github.com/foregate/foregate/internal/redis/lookup"
)

const (
	maxCorrections = 10_000 // tenants with something to settle
	flushBatch     = 256    // corrections in one round trip
)

// corrections are the changes that Redis must be told, summed by tenant.
type corrections struct {
	mu   sync.Mutex
	more map[string]correction
}

type correction struct {
	limit Limit
	amounts
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
	l.load(context.WithoutCancel(ctx))
	l.asker.Run(ctx, lookup.Background{
		Flush: l.flush,
		Probe: func(ctx context.Context) error {
			_, err := l.ask(ctx, keyProbe, Limit{RPM: 1}.shared(), charge{how: howSettle})
			return err
		},
		Back: func(context.Context) { l.log.Info().Msg("tenants' limits are counted over all replicas again") },
	})
	return nil
}

// load loads the script. A failure shows at the first request.
func (l *Limiter) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookup.BackgroundTime)
	defer cancel()
	_ = l.scripts.Load(ctx, keyLimit)
}

// flush tells Redis the corrections. While Redis is unavailable they are dropped: the charges there drain away.
func (l *Limiter) flush(ctx context.Context) {
	all := l.corrections.take()
	if l.asker.Away() {
		l.metrics.dropped.Add(float64(len(all)))
		return
	}
	part := make(map[string]correction, min(len(all), flushBatch))
	for name, c := range all {
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
	_ = l.scripts.Exec(ctx, pipe, lookup.BackgroundTime) // each command has its own error
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			l.metrics.dropped.Inc()
		}
	}
}
