package usage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/script"
)

const (
	flushInterval = 5 * time.Second
	flushTimeout  = time.Second      // of one call to Redis
	stopTimeout   = 2 * time.Second  // of all calls at the stop
	settleAfter   = 10 * time.Minute // after the end of a day: requests that began before it have ended
)

// Options configure a [Meter].
type Options struct {
	Redis      redis.UniversalClient // nil: usage is only this process'
	Embedded   bool                  // Redis is inside this process and ends with it
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // nil is time.Now
}

// Meter counts the usage of one replica and shares it through Redis. It is safe for concurrent use.
type Meter struct {
	opts    Options
	process string // names this process in Redis
	began   time.Time
	scripts *script.Runner
	ledger  ledger
	metrics *metrics
	reading chan struct{} // bounds the queries at the same time

	// Of the goroutine that writes to Redis.
	away    bool // the last call failed, which was logged
	deleted Day  // the day on which old days were deleted last
}

// maxQueries bounds the queries at the same time: each may read some MB.
const maxQueries = 2

// New makes a meter. Its creator runs it.
func New(o Options) *Meter {
	if o.Now == nil {
		o.Now = time.Now
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	m := &Meter{opts: o, process: hex.EncodeToString(id[:]), began: o.Now(), reading: make(chan struct{}, maxQueries)}
	if o.Redis != nil {
		m.scripts = script.NewRunner(o.Redis, writeScript)
	}
	m.metrics = newMetrics(o.Registerer, func() float64 {
		if o.Redis == nil {
			return 0
		}
		return float64(m.ledger.pending())
	})
	return m
}

// Add counts a request that began at a time: it belongs to that UTC day. It waits for nothing.
func (m *Meter) Add(began time.Time, tenant, route string, c *Counts) {
	m.ledger.add(DayOf(began), tenant, route, c)
}

// Run writes the usage to Redis until ctx ends, and then what is left, for two seconds at most. Without Redis it only
// waits.
func (m *Meter) Run(ctx context.Context) error {
	if m.opts.Redis == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		m.flush(ctx)
		select {
		case <-ctx.Done():
			return m.stop(context.WithoutCancel(ctx))
		case <-tick.C:
		}
	}
}

// stop settles all days.
func (m *Meter) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var failed error
	for _, day := range m.ledger.days() {
		failed = errors.Join(failed, m.settle(ctx, day))
	}
	if n := m.ledger.pending(); n > 0 {
		m.opts.Logger.Error().Err(failed).Int64("requests", n).Msg("usage of requests is lost: Redis does not take it, and this replica stops")
	}
	return nil
}

// flush writes what Redis does not have, settles days that are over, and deletes old ones.
func (m *Meter) flush(ctx context.Context) {
	err := m.write(ctx)
	if err != nil && ctx.Err() != nil {
		return // stop tries again
	}
	switch {
	case err != nil && !m.away:
		m.opts.Logger.Warn().Err(err).Msg("usage is kept by this replica: Redis does not take it")
	case err == nil && m.away:
		m.opts.Logger.Info().Msg("usage is in Redis again")
	}
	m.away = err != nil
	result := m.metrics.written
	if err != nil {
		result = m.metrics.failed
	}
	result.Inc()
}

func (m *Meter) write(ctx context.Context) error {
	now := m.opts.Now()
	for _, day := range m.ledger.days() {
		step := m.report
		if now.Sub((day + 1).Begin()) >= settleAfter {
			step = m.settle
		}
		if err := step(ctx, day); err != nil {
			return err
		}
	}
	return m.deleteOld(ctx, DayOf(now))
}

// report writes the rows of a day that Redis does not have.
func (m *Meter) report(ctx context.Context, day Day) error {
	changed, _ := m.ledger.changed(day)
	for range changed/batchRows + 1 { // an empty batch tells whether Redis has lost rows
		b := m.ledger.report(day)
		if b == nil {
			return nil
		}
		if err := m.send(ctx, day, b); err != nil {
			return err
		}
	}
	return nil
}

// settle adds the rows of a day to the shared ones, and forgets the day.
func (m *Meter) settle(ctx context.Context, day Day) error {
	_, all := m.ledger.changed(day)
	for range all/batchRows + 2 { // one more for a batch whose result was not known
		b := m.ledger.settlement(day)
		if b == nil {
			break
		}
		if err := m.send(ctx, day, b); err != nil {
			return err
		}
	}
	m.ledger.forget(day) // otherwise rows came meanwhile, and the next flush settles them
	return nil
}

// errFull means that a day has too many rows in Redis.
var errFull = errors.New("the hash of the day is full")

// send writes a batch.
func (m *Meter) send(ctx context.Context, day Day, b *batch) error {
	answered := false
	defer func() {
		if !answered { // or the client panicked at a reply
			m.ledger.failed(day, b)
		}
	}()
	o, err := m.call(ctx, day, b)
	if err != nil {
		return fmt.Errorf("usage of %v: %w", day, err)
	}
	answered = true
	done, lost := m.ledger.written(day, b, o)
	if lost {
		m.opts.Logger.Warn().Stringer("day", day).
			Msg("Redis has lost usage: replicas that run write theirs of this day again; of replicas that have stopped it is gone")
	}
	if !done && o.status < 0 {
		return fmt.Errorf("usage of %v: %w", day, errFull)
	}
	return nil
}

// call runs the script.
func (m *Meter) call(ctx context.Context, day Day, b *batch) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	mode := "report"
	if b.settle {
		mode = "settle"
	}
	args := make([]any, 0, 4+2*len(b.keys))
	args = append(args, m.process, b.number, mode, maxFields)
	for i, key := range b.keys {
		args = append(args, key.name(), b.counts[i].encode())
	}
	reply, err := m.scripts.Run(ctx, writeScript, []string{day.key()}, args...).Result()
	if err != nil {
		return outcome{}, writeScript.Explain(err)
	}
	return parseOutcome(reply)
}

// parseOutcome parses the script's reply.
func parseOutcome(reply any) (o outcome, err error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 2 {
		return outcome{}, errors.New("the script's reply has another shape")
	}
	status, isStatus := list[0].(int64)
	before, isNumber := list[1].(int64)
	if !isStatus || !isNumber || status < -1 || status > 1 || before < 0 || before > maxNumber {
		return outcome{}, errors.New("the script's reply has other types")
	}
	return outcome{status, before}, nil
}

// deleteOld deletes the days before the last [MaxDays], once a day: those that may exist if no replica ran meanwhile.
func (m *Meter) deleteOld(ctx context.Context, today Day) error {
	if m.deleted == today {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	keys := make([]string, 0, deletedDays)
	for i := range Day(deletedDays) {
		keys = append(keys, (today - MaxDays - i).key())
	}
	if err := m.opts.Redis.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("delete old usage: %w", err)
	}
	m.deleted = today
	return nil
}
