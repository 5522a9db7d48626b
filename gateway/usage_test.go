package gateway

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers"
)

func TestEveryResultOfARequestIsCountedOnce(t *testing.T) {
	for code, of := range map[int]func(*ledger.Counts) *int64{
		200: func(c *ledger.Counts) *int64 { return &c.OK },
		400: func(c *ledger.Counts) *int64 { return &c.Refused }, 403: func(c *ledger.Counts) *int64 { return &c.Refused },
		429: func(c *ledger.Counts) *int64 { return &c.Limited }, 499: func(c *ledger.Counts) *int64 { return &c.ClientLeft },
		500: func(c *ledger.Counts) *int64 { return &c.Failed }, 503: func(c *ledger.Counts) *int64 { return &c.Shed },
		501: func(c *ledger.Counts) *int64 { return &c.Refused },
		504: func(c *ledger.Counts) *int64 { return &c.Failed }, 597: func(c *ledger.Counts) *int64 { return &c.Failed },
	} {
		want := ledger.Counts{Requests: 1}
		*of(&want) = 1
		if got := usageOf(&accessRecord{route: "r", code: code}); got != want {
			t.Errorf("%d: %+v", code, got)
		}
	}
}

func TestAMissOfOnlyIfCachedIsTheClientsOwn(t *testing.T) {
	m := newMetrics(nil)
	for err, want := range map[error]struct {
		usage ledger.Counts
		tier  string
	}{
		tiers.ErrNotCached:       {ledger.Counts{Requests: 1, Refused: 1}, tierCache},
		context.DeadlineExceeded: {ledger.Counts{Requests: 1, Failed: 1}, ""},
	} {
		l := &accessRecord{route: "r", code: http.StatusGatewayTimeout, err: fmt.Errorf("as it comes: %w", err)}
		if got := usageOf(l); got != want.usage {
			t.Errorf("%v: %+v", err, got)
		}
		m.request(l, time.Second)
		if n := testutil.ToFloat64(m.requests.WithLabelValues("r", want.tier, "504", l.Caller.Priority.String())); n != 1 {
			t.Errorf("%v: %v requests with the tier %q", err, n, want.tier)
		}
	}
}

func TestUsageIsWhatTheReceiptTellsOrTheCachedAnswer(t *testing.T) {
	made := usageOf(&accessRecord{code: 200, Record: tiers.Record{Cache: cache.ResultMiss, Receipt: &tiers.Receipt{
		PromptTokens: 100, AcceptedTokens: 30, TargetTokens: 20, USD: 0.003, DraftUSD: 0.001, TargetAloneUSD: 0.005, SpentUSD: 0.0055,
	}}})
	if want := (ledger.Counts{Requests: 1, OK: 1, Prompt: 100, Completion: 50, DraftTokens: 30, DraftUSD: 1e6, TargetUSD: 2e6, TargetAloneUSD: 5e6, DraftsSaved: -5e5}); made != want {
		t.Errorf("made: %+v", made)
	}
	entry := &cache.Entry{Prompt: 100, Accepted: 30, Target: 20, USD: 0.003}
	want := ledger.Counts{Requests: 1, OK: 1, Prompt: 100, Completion: 50, CachedTokens: 150, CacheSaved: 3e6}
	for _, result := range []cache.Result{cache.ResultHit, cache.ResultLocal, cache.ResultCoalesced} {
		want.Cached, want.Coalesced = 1, 0
		if result == cache.ResultCoalesced {
			want.Cached, want.Coalesced = 0, 1
		}
		if got := usageOf(&accessRecord{code: 200, Record: tiers.Record{Cache: result, Entry: entry}}); got != want {
			t.Errorf("%s: %+v", result, got)
		}
	}
}
