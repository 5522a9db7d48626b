package admission

import (
	"fmt"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func take(l *Limiter, tenant string, rpm int, now time.Time, n int) (let int) {
	for range n {
		if _, ok := l.Allow(tenant, rpm, now); ok {
			let++
		}
	}
	return let
}

func TestATenantMaySpendAMinuteAtOnceAndThenItsRate(t *testing.T) {
	var l Limiter
	if got := take(&l, "acme", 60, noon, 100); got != 60 {
		t.Errorf("at once: %d let in", got)
	}
	wait, ok := l.Allow("acme", 60, noon)
	if ok || wait != time.Second {
		t.Errorf("got %v, %v", wait, ok)
	}
	if wait, ok := l.Allow("acme", 60, noon.Add(400*time.Millisecond)); ok || wait != 600*time.Millisecond {
		t.Errorf("after 400 ms: got %v, %v", wait, ok)
	}
	if got := take(&l, "acme", 60, noon.Add(time.Second), 100); got != 1 {
		t.Errorf("after a second: %d let in", got)
	}
	if got := take(&l, "acme", 60, noon.Add(time.Hour), 100); got != 60 {
		t.Errorf("after an hour: %d let in", got)
	}
}

func TestARefusalCostsNothing(t *testing.T) {
	var l Limiter
	take(&l, "acme", 60, noon, 10_000)
	if wait, _ := l.Allow("acme", 60, noon); wait != time.Second {
		t.Errorf("wait grew to %v", wait)
	}
}

func TestTenantsDoNotShareABucket(t *testing.T) {
	var l Limiter
	take(&l, "noisy", 10, noon, 1000)
	if got := take(&l, "quiet", 10, noon, 10); got != 10 {
		t.Errorf("%d let in", got)
	}
}

func TestNoRateIsUnlimited(t *testing.T) {
	var l Limiter
	if got := take(&l, "a", 0, noon, 1000) + take(&l, "a", -1, noon, 1000); got != 2000 || len(l.tenants) != 0 {
		t.Errorf("%d let in, %d buckets", got, len(l.tenants))
	}
}

func TestAChangedRateCountsAtOnce(t *testing.T) {
	var l Limiter
	take(&l, "acme", 600, noon, 10)
	if got := take(&l, "acme", 5, noon, 100); got != 5 {
		t.Errorf("lowered: %d let in", got)
	}
	take(&l, "acme", 600, noon.Add(time.Second), 1) // what passed until now counts at the old rate
	if got := take(&l, "acme", 600, noon.Add(2*time.Second), 100); got != 10 {
		t.Errorf("raised: %d let in", got)
	}
}

func TestAClockThatStepsBackLetsNobodyInForFree(t *testing.T) {
	var l Limiter
	take(&l, "acme", 60, noon, 60)
	if got := take(&l, "acme", 60, noon.Add(-time.Hour), 100); got != 0 {
		t.Errorf("%d let in", got)
	}
}

func TestTheTenantSilentLongestIsForgottenFirst(t *testing.T) {
	var l Limiter
	take(&l, "first", 1, noon, 1)
	take(&l, "second", 1, noon, 1)
	for i := range maxTenants - 2 {
		take(&l, fmt.Sprint(i), 1, noon, 1)
	}
	take(&l, "first", 1, noon, 1) // refused, and heard of again
	take(&l, "one more", 1, noon, 1)
	if len(l.tenants) != maxTenants || l.recent.Len() != maxTenants {
		t.Errorf("%d tenants, %d in order", len(l.tenants), l.recent.Len())
	}
	if take(&l, "first", 1, noon, 1) != 0 {
		t.Error("first was forgotten")
	}
	if take(&l, "second", 1, noon, 1) != 1 {
		t.Error("second was kept")
	}
}
