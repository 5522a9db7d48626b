package riskview

import (
	"context"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// rateWindow is the time over which the rate of audits is measured.
	rateWindow = time.Hour
	// rateInterval is how long a replica reuses a rate, because measuring it reads the whole log.
	rateInterval = time.Minute
)

// Rates are the recent audits per minute that count for a key's next threshold, over all replicas. A key with
// fewer than two audits has no rate.
type Rates map[risk.Key]float64

// RatesOf measures the rates in the log.
func RatesOf(ctx context.Context, book *evidence.Store, known []evidence.KeyState, now time.Time) (Rates, error) {
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
			continue // the drafts of the warm-up say more
		}
		if c.n > 1 {
			p[k] = float64(c.n) / max(minutes, 1)
		}
	}
	return p, nil
}

// secondsToCertify is the time until the first certificate: from the audits in the log, or in a warm-up without audits from
// its drafts. Every draft gives a score; of the audits, those of the strictest threshold count. It is nil if unknown.
func secondsToCertify(v *gateway.RiskView) *float64 {
	switch {
	case v.OperatingIndex > 0 || v.AuditsToCertify == nil:
		return nil
	case v.AuditsPerMinute != nil && v.ScoresWanted == 0:
		return new(60 * *v.AuditsToCertify / *v.AuditsPerMinute)
	case v.Warmup == nil || v.Warmup.DraftsPerMinute == nil:
		return nil
	}
	drafts := *v.Warmup.DraftsPerMinute
	return new(60 * (float64(v.ScoresWanted-v.ScoresLearned)/drafts + *v.AuditsToCertify/(drafts*risk.AcceptanceShare(1))))
}
