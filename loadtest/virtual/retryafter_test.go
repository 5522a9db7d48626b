package virtual

import (
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest"
)

func TestRetryAfterIsNearTheTruth(t *testing.T) {
	for name, row := range baseline(t, "retry-after") {
		if row.Shed < 100 || row.RetryRatio < 0.5 || row.RetryRatio > 2 {
			t.Errorf("%s: %d refused; told %.0f s and true %.0f s in the middle, the one ÷ the other %.2f", name, row.Shed, row.RetryAfter, row.RetryTrue, row.RetryRatio)
		}
	}
}

func TestATruthIsWhenOneOfTheClassCameThatWasLetIn(t *testing.T) {
	var c retryAccuracy
	low, other := queueClass{"p", identity.Low}, queueClass{"p", identity.Normal}
	c.refuse(low, refusal{10 * time.Second, 4})
	c.admit(low, 9*time.Second) // it had waited
	c.admit(other, 11*time.Second)
	c.refuse(low, refusal{13 * time.Second, 6})
	c.admit(low, 11500*time.Millisecond)
	if got := c.retry(); got != (loadtest.Retry{RetryAfter: 4, True: 2, Ratio: 2}) {
		t.Errorf("%+v", got)
	}
	c.admit(low, time.Hour)
	c.admit(low, 2*time.Hour)
	if got := c.retry(); len(c.retryAfter) != 2 || got.True != maxRetryAfter {
		t.Errorf("%d, %+v", len(c.retryAfter), got)
	}
}
