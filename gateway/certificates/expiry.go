package certificates

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// WarnBefore is how long before a certificate expires the warnings begin.
	WarnBefore = 14 * 24 * time.Hour
	// remindEvery is the time between two warnings in the log.
	remindEvery = 24 * time.Hour
)

// Options configure an [Expiry].
type Options struct {
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Expiry tells when the certificates in force expire: as a metric, and from [WarnBefore] on as warnings. It is safe for
// concurrent use.
type Expiry struct {
	log   zerolog.Logger
	now   func() time.Time
	gauge *prometheus.GaugeVec

	mu       sync.Mutex
	notAfter map[string]time.Time // by setting
}

// NewExpiry makes an Expiry without certificates.
func NewExpiry(o Options) *Expiry {
	e := &Expiry{log: o.Logger, now: o.Now, notAfter: map[string]time.Time{}, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "foregate_certificate_not_after_timestamp_seconds", Help: "Time at which the certificate of a setting expires, in seconds since 1970.",
	}, []string{"setting"})}
	if e.now == nil {
		e.now = time.Now
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(e.gauge)
	}
	return e
}

// Set records when the certificate of a setting expires that is in force from now on.
func (e *Expiry) Set(setting string, notAfter time.Time) {
	e.gauge.WithLabelValues(setting).Set(float64(notAfter.Unix()))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notAfter[setting] = notAfter
}

// Forget drops a setting whose certificate is no longer used.
func (e *Expiry) Forget(setting string) {
	e.gauge.DeleteLabelValues(setting)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.notAfter, setting)
}

// Warnings lists the certificates that expire soon or have expired, by setting.
func (e *Expiry) Warnings() []string {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, setting := range slices.Sorted(maps.Keys(e.notAfter)) {
		at := e.notAfter[setting]
		switch left := at.Sub(now); {
		case left <= 0:
			out = append(out, fmt.Sprintf("%s: the certificate expired at %s; replace its files", setting, at.UTC().Format(time.RFC3339)))
		case left < WarnBefore:
			out = append(out, fmt.Sprintf("%s: the certificate expires at %s, in %s; replace its files", setting, at.UTC().Format(time.RFC3339), wholeDays(left)))
		}
	}
	return out
}

// wholeDays is a duration in words.
func wholeDays(d time.Duration) string {
	switch n := int(d / (24 * time.Hour)); n {
	case 0:
		return "less than a day"
	case 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", n)
	}
}

// Run writes the warnings to the log, at once and once a day, until ctx ends.
func (e *Expiry) Run(ctx context.Context) error {
	tick := time.NewTicker(remindEvery)
	defer tick.Stop()
	for {
		for _, w := range e.Warnings() {
			e.log.Warn().Msg(w)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
