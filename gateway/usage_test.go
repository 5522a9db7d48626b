package gateway

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
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
		PromptTokens: 100, AcceptedTokens: 30, TargetTokens: 20, USD: 0.003, DraftUSD: 0.001, SavedUSD: -0.0005,
	}}})
	if want := (ledger.Counts{Requests: 1, OK: 1, Prompt: 100, Completion: 50, DraftTokens: 30, DraftUSD: 1e6, TargetUSD: 2e6, TargetAloneUSD: 25e5, DraftsSaved: -5e5}); made != want {
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

func TestTheGuideHasEachColumnOfUsage(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/tenants-and-identity.md")
	for _, name := range columnsOfCSV {
		if !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("docs/guides/tenants-and-identity.md does not have %s (%v)", name, err)
		}
	}
}

func TestQueriesAreReadAndMistakesAreNamed(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const by = "by: want tenant, route and day, one or more of them, each once, such as tenant,day"
	for _, c := range []struct{ from, to, by, want string }{
		{"", "", "", "2026-11-01 2026-11-23 [tenant]"},
		{"2026-10-05", "", "", "2026-10-05 2026-11-23 [tenant]"},
		{"", "2026-02-28", "", "2026-02-01 2026-02-28 [tenant]"},
		{"2026-11-23", "2026-11-23", "day", "2026-11-23 2026-11-23 [day]"},
		{"2025-10-20", "2026-11-23", "route, day,tenant", "2025-10-20 2026-11-23 [route day tenant]"},
		{"2026-11-24", "2027-01-01", "tenant", "2026-11-24 2027-01-01 [tenant]"},
		{"yesterday", "", "", "from: want a UTC day such as 2026-11-23"},
		{"", "2026-02-30", "", "to: want a UTC day such as 2026-11-23"},
		{"0001-01-01", "", "", "from: want a UTC day such as 2026-11-23"},
		{"2026-11-24", "", "", "from: 2026-11-24 is after 2026-11-23; both are UTC days and included"},
		{"2025-10-19", "2026-11-23", "", "from: 2025-10-19 … 2026-11-23 are 401 days; want at most 400"},
		{"", "", "tenant,tenant", by},
		{"", "", "tenant,", by},
		{"", "", "model", by},
	} {
		q, err := usageQuery(c.from, c.to, c.by, noon)
		got := fmt.Sprint(q.From.Format(time.DateOnly), " ", q.To.Format(time.DateOnly), " ", q.By)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestCacheControlIsReadAsTheStandardSays(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  tiers.CacheControl
	}{
		{nil, tiers.CacheControl{}},
		{[]string{"no-transform, max-stale=5, x=\"a\""}, tiers.CacheControl{}},
		{[]string{"no-store"}, tiers.CacheControl{NoStore: true}},
		{[]string{" No-Cache "}, tiers.CacheControl{NoCache: true}},
		{[]string{"only-if-cached"}, tiers.CacheControl{OnlyIfCached: true}},
		{[]string{"max-age=60"}, tiers.CacheControl{HasMaxAge: true, MaxAge: time.Minute}},
		{[]string{`max-age="60"`}, tiers.CacheControl{HasMaxAge: true, MaxAge: time.Minute}},
		{[]string{"max-age=60, max-age=5"}, tiers.CacheControl{HasMaxAge: true, MaxAge: 5 * time.Second}},
		{[]string{"max-age=60", "max-age=5"}, tiers.CacheControl{HasMaxAge: true, MaxAge: 5 * time.Second}},
		{[]string{"max-age=0"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=-1"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=99999999999999999999"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=2000000000"}, tiers.CacheControl{HasMaxAge: true, MaxAge: maxAge}},
		{[]string{"no-store,,no-cache", "only-if-cached"}, tiers.CacheControl{NoStore: true, NoCache: true, OnlyIfCached: true}},
	} {
		if got := readCacheControl(http.Header{"Cache-Control": c.lines}); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func FuzzCacheControl(f *testing.F) {
	f.Add("no-cache, max-age=5", "only-if-cached")
	f.Fuzz(func(t *testing.T, a, b string) {
		c := readCacheControl(http.Header{"Cache-Control": {a, b}})
		if c.MaxAge < 0 || c.MaxAge > maxAge || (c.MaxAge > 0 && !c.HasMaxAge) {
			t.Errorf("%q, %q: %+v", a, b, c)
		}
	})
}
