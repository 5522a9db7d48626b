package settings

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/calls"
)

const (
	defaultInterval = 500 * time.Millisecond
	readDeadline    = 250 * time.Millisecond
	maxLines        = 16 // log lines of one poll; a hash full of garbage must not fill the log
)

// Options configure a [Watcher].
type Options struct {
	// Redis holds the settings; nil means defaults only. The client must have ContextTimeoutEnabled,
	// otherwise a frozen server delays Run's return by the client's own read timeout.
	Redis    redis.UniversalClient
	Routes   []string      // routes that may have overrides; [Watcher.SetRoutes] replaces them
	Interval time.Duration // between reads; default 500 ms
	// Store publishes settings again that Redis has lost; nil, or one that may not write: they only stay in force.
	Store *Store

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Watcher holds the newest good snapshot. Its methods are safe for concurrent use.
type Watcher struct {
	o        Options
	snapshot atomic.Pointer[Snapshot]
	lastRead atomic.Pointer[time.Time] // monotonic; never compared with another machine's

	mu      sync.Mutex // one poll at a time; guards what follows
	metrics *metrics
	routes  []string
	read    bool              // once at least
	raw     map[string]string // the hash of snapshot
	refused bool              // Redis answered the last reads with an error
	head    Entry             // the newest of the log at the last read
	version int64             // the highest that was read

	lost        atomic.Pointer[[]Change] // settings in force that Redis has lost
	unpublished bool                     // it was logged that they cannot be published; used by Run's goroutine
}

// New returns a watcher with the defaults until the first read.
func New(o Options) *Watcher {
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	w := &Watcher{o: o, routes: slices.Clone(o.Routes), metrics: newMetrics(o.Registerer)}
	w.setLost(nil)
	s, _ := FromHash(nil, w.routes, nil)
	w.snapshot.Store(s)
	now := time.Now()
	w.lastRead.Store(&now)
	return w
}

// Snapshot returns the newest snapshot. A request reads it once and keeps it.
func (w *Watcher) Snapshot() *Snapshot { return w.snapshot.Load() }

// Lost returns the settings in force that Redis has lost with its other data and that are not published again yet, sorted by
// name: each as it is in force (Old) and as Redis has it (New).
func (w *Watcher) Lost() []Change { return *w.lost.Load() }

// SetRoutes replaces the routes that may have overrides. Overrides that Redis has of new routes are in force when it
// returns.
func (w *Watcher) SetRoutes(routes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes = slices.Clone(routes)
	if w.read {
		w.apply(w.raw)
	}
}

// Age is the time since the last successful read, or since New if there was none. It is 0 without Redis:
// defaults do not age.
func (w *Watcher) Age() time.Duration {
	if w.o.Redis == nil {
		return 0
	}
	return time.Since(*w.lastRead.Load())
}

// Run reads at once and then every interval until ctx ends, and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	if w.o.Redis == nil {
		<-ctx.Done()
		return nil
	}
	panics.Every(ctx, w.o.Interval, nil, func() {
		_ = w.Poll(ctx) // it logs and counts failures, and is tried again
		w.republish(ctx)
	})
	return nil
}

// Poll reads the settings once, within 250 ms. It is called at the start, so that the first request has the
// operator's settings.
func (w *Watcher) Poll(ctx context.Context) error {
	if w.o.Redis == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	fields, head, err := w.readRedis(bounded)
	if err != nil {
		return w.failed(ctx, err)
	}
	fields = w.keep(fields, head)
	now := time.Now()
	w.lastRead.Store(&now)
	if w.refused {
		w.refused = false
		w.o.Logger.Info().Msg("settings are readable again")
	}
	if !w.read || !maps.Equal(fields, w.raw) {
		w.apply(fields)
	}
	return nil
}

// failed counts a failed read. If Redis answers with errors, it logs the first of them: an operator must
// correct that. The fleet reports a silent Redis for all its users.
func (w *Watcher) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // the caller stops; that says nothing about Redis
	}
	w.metrics.errors.Inc()
	if !w.refused && calls.Answered(err) {
		w.refused = true
		inForce := "the last good ones stay in force"
		if !w.read {
			inForce = "defaults are in force until they are"
		}
		w.o.Logger.Warn().Err(err).Msg("settings are not readable; " + inForce)
	}
	return err
}

// apply puts a changed hash into force.
func (w *Watcher) apply(fields map[string]string) {
	last := w.snapshot.Load()
	next, _ := FromHash(fields, w.routes, last)
	first := !w.read
	w.read, w.raw = true, fields
	w.snapshot.Store(next)
	w.metrics.rejected.show(next.Rejected)
	w.metrics.unknown.show(next.Unknown)
	w.logFields(newlyIn(last.Rejected, next.Rejected), "setting refused; its last good value stays in force")
	w.logFields(newlyIn(last.Unknown, next.Unknown), "setting is not known here and is ignored")
	changed := differing(last.Set, next.Set)
	if first || len(changed) > 0 {
		w.metrics.applied.SetToCurrentTime()
	}
	if len(changed) > 0 {
		w.o.Logger.Info().Strs("changed", changed[:min(len(changed), maxLines)]).Int("count", len(changed)).Msg("settings applied")
	}
	for _, warning := range newlyIn(last.Warnings(), next.Warnings()) {
		w.o.Logger.Warn().Str("warning", warning).Msg("kill switch in force")
	}
}

// logFields writes one line for each field.
func (w *Watcher) logFields(news []RejectedValue, message string) {
	for i, r := range news {
		if i == maxLines {
			w.o.Logger.Warn().Int("more", len(news)-maxLines).Msg("further fields: " + message)
			return
		}
		w.o.Logger.Warn().Str("name", r.Name).Str("value", r.Value).Str("reason", r.Reason).Msg(message)
	}
}

// newlyIn returns what is in now and was not before.
func newlyIn[T comparable](before, now []T) []T {
	var news []T
	for _, v := range now {
		if !slices.Contains(before, v) {
			news = append(news, v)
		}
	}
	return news
}
