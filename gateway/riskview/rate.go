package riskview

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// paceOver is the time over which audits are counted to say how fast they come.
	rateWindow = time.Hour
	// paceEvery is how long a replica goes by a count: it reads the whole log for it.
	rateInterval = time.Minute
)

// Rates are how many audits a minute came of late that count for a key's next threshold, at all
// replicas. A key of which fewer than two came has none.
type Rates map[risk.Key]float64

// RatesOf counts in the log.
func RatesOf(ctx context.Context, book *evidence.Store, known []evidence.Known, now time.Time) (Rates, error) {
	type count struct {
		version int64
		next    float64 // threshold
		warmup  risk.Warmup
		n       int
		first   time.Time
	}
	counts := map[risk.Key]*count{}
	for i := range known {
		k := &known[i]
		if k.State.Version != 0 {
			counts[k.Key] = &count{version: k.State.Version, next: k.State.Grid.At(k.State.View(k.Rule).Op + 1), warmup: k.State.Warmup}
		}
	}
	err := book.Log(ctx, func(e evidence.LogEntry) error {
		c := counts[e.Key]
		if c == nil || e.Version != c.version || e.Score < c.next || now.Sub(e.When) > rateWindow {
			return nil
		}
		if c.n == 0 {
			c.first = e.When
		}
		c.n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	p := Rates{}
	for k, c := range counts {
		minutes := now.Sub(c.first).Minutes()
		if minutes < 1 && c.warmup.Ended == risk.WarmupRuns && c.warmup.PerMinute(now) > 0 {
			continue // the drafts of the warm-up tell more
		}
		if c.n > 1 {
			p[k] = float64(c.n) / max(minutes, 1)
		}
	}
	return p, nil
}

// timeToCertify is how long it takes to the first certificate.
type timeToCertify struct {
	seconds *float64 // nil: not known, or there is one
	at      string   // at which pace
}

// waitOf is that of a view: by the audits in the log, and in a warm-up of which none are there by the drafts that it makes.
// Scores are collected from every draft; of the audits those of the strictest threshold count.
func waitOf(v *gateway.RiskView) timeToCertify {
	switch {
	case v.Op > 0 || v.State == gateway.RiskInherits || v.ToCertify == nil:
		return timeToCertify{}
	case v.PerMinute != nil && v.Learning == 0:
		return timeToCertify{new(60 * *v.ToCertify / *v.PerMinute), rateText(*v.PerMinute, "audits")}
	case v.Warmup == nil || v.Warmup.PerMinute == nil:
		return timeToCertify{}
	}
	drafts := *v.Warmup.PerMinute
	minutes := float64(v.Learning-v.Learned)/drafts + *v.ToCertify/(drafts*risk.AcceptanceShare(1))
	what := "drafts"
	if v.Warmup.Serves {
		what = "requests" // each of which is drafted
	}
	return timeToCertify{new(60 * minutes), rateText(drafts, what)}
}

// rateText is how many of something come in a time, e.g. "4 requests/s".
func rateText(perMinute float64, what string) string {
	if perMinute >= 60 {
		return fmt.Sprintf("%s %s/s", display.OneDecimal(perMinute/60), what)
	}
	return fmt.Sprintf("%s %s a minute", display.OneDecimal(perMinute), what)
}
