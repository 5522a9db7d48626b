package pool

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/pressure"
)

// fixed returns a pool of backends that nobody serves, for tests without a
// network.
func fixed(t testing.TB, o Options) *Pool {
	t.Helper()
	if o.Name == "" {
		o.Name = "big"
	}
	if o.Backends == nil && o.Discover == "" {
		o.Backends = []string{"http://a:8000", "http://b:8000"}
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// give hands a backend a reading as if it had just been scraped.
func (p *Pool) give(i int, r pressure.Reading) {
	b := (*p.set.Load())[i]
	if r.At.IsZero() {
		r.At = p.o.Now()
	}
	p.storeReading(b, r)
}

func pick(t testing.TB, p *Pool, d Demand) *Lease {
	t.Helper()
	l, err := p.pick(d)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOptionsThatWouldGoWrongAreRefusedWithPoolAndURL(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"nothing":   {Options{Name: "big"}, `pool "big": needs backends or discover, one of them`},
		"scheme":    {Options{Name: "big", Backends: []string{"ftp://a"}}, `backend "ftp://a": scheme is "ftp", not http or https`},
		"no scheme": {Options{Name: "big", Backends: []string{"a:8000"}}, `backend "a:8000": scheme is "a", not http or https`},
		"no host":   {Options{Name: "big", Backends: []string{"http://:8000"}}, `no host`},
		"one id":    {Options{Name: "big", Backends: []string{"http://a:1", "https://a:1"}}, `backend "https://a:1": its id, a-1, is that of another`},
		"not dns":   {Options{Name: "big", Discover: "http://a:1"}, `discover "http://a:1": want dns://HOST:PORT or srv://`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestIDsAreStableUniqueAndFitForKeys(t *testing.T) {
	long := "http://" + strings.Repeat("very-long-label.", 8) + "example:8000"
	p := fixed(t, Options{Backends: []string{
		"http://10.0.0.7:8000/", "https://GPU_3.Example.com", "http://[::1]:9", "http://10.0.0.7:8000/second", long, "https://10.0.0.7:8001",
	}})
	seen := map[string]bool{}
	var ids []string
	for _, s := range p.Snapshot() {
		if !regexp.MustCompile(`^[a-z0-9.-]{1,64}$`).MatchString(s.ID) || seen[s.ID] {
			t.Errorf("id %q", s.ID)
		}
		seen[s.ID] = true
		ids = append(ids, s.ID)
		if strings.HasSuffix(s.URL, "/") {
			t.Errorf("URL %q", s.URL)
		}
	}
	if ids[0] != "10.0.0.7-8000" || !strings.HasPrefix(ids[1], "gpu-3.example.com-") || !strings.HasPrefix(ids[3], "10.0.0.7-8000-") {
		t.Errorf("ids %q", ids)
	}
}

func TestConcurrentRequestsOfAnIdlePoolAreSpread(t *testing.T) {
	p := fixed(t, Options{Backends: []string{"http://a", "http://b", "http://c", "http://d"}})
	for i := range 4 {
		p.give(i, pressure.Reading{KVUsage: 0.1, BlockSize: 16, Blocks: 10_000})
	}
	for range 40 {
		pick(t, p, Demand{PromptTokens: 1000})
	}
	for _, s := range p.Snapshot() {
		if s.InFlight != 10 {
			t.Errorf("%s has %d requests", s.ID, s.InFlight)
		}
	}
}

func TestOwnRequestsCountUntilAReadingThatBeganAfterThemIncludesThem(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := fixed(t, Options{Backends: []string{"http://a"}, Now: func() time.Time { return now }})
	b := (*p.set.Load())[0]
	want := func(requests, queued, held int) {
		t.Helper()
		if own := b.account.recent; own.requests != requests || own.queued != queued || own.prompt != held {
			t.Fatalf("own %+v; want %d, %d, %d", own, requests, queued, held)
		}
	}
	first := pick(t, p, Demand{PromptTokens: 100})
	want(1, 100, 100)
	now = now.Add(200 * time.Millisecond)
	begun := now // the scrape is sent
	now = now.Add(100 * time.Millisecond)
	second := pick(t, p, Demand{PromptTokens: 10})
	want(2, 110, 110)
	now = now.Add(700 * time.Millisecond) // its reading comes by way of another replica
	p.ReceiveReading("a", pressure.Reading{At: begun})
	want(1, 10, 10) // the first is in the reading, the second may not be
	p.ReceiveReading("a", pressure.Reading{At: begun.Add(-time.Second)})
	want(1, 10, 10) // an older one changes nothing
	first.FirstToken()
	want(1, 10, 10)
	second.FirstToken()
	second.FirstToken()
	want(1, 0, 10)
	second.SetPromptTokens(16)
	want(1, 0, 16)
	first.Done(5)
	first.Done(5)
	want(1, 0, 16)
	second.Done(5)
	want(0, 0, 0)
	if s := p.Snapshot()[0]; s.InFlight != 0 || b.account.all != (totals{}) {
		t.Errorf("left over: %+v, %+v", s, b.account.all)
	}
}

func TestUnknownReadingIsNeitherIdleNorFull(t *testing.T) {
	p := fixed(t, Options{Backends: []string{"http://idle", "http://unknown", "http://busy"}})
	p.give(0, pressure.Reading{KVUsage: 0.1})
	p.give(2, pressure.Reading{KVUsage: 0.9, Waiting: 20, Running: 100})
	wait := func(i int) float64 { return looked(p)[i].wait(fitting(need{prompt: 512})) }
	if c := looked(p)[1]; !c.usageUnknown || c.usage != 0.5 {
		t.Errorf("unknown: %+v", c)
	}
	if !(wait(0) < wait(1) && wait(1) < wait(2)) {
		t.Errorf("waits %v, %v, %v", wait(0), wait(1), wait(2))
	}
	// Our own requests count there, beyond what the mean stands for.
	before := wait(1)
	for range 40 {
		pick(t, p, Demand{PromptTokens: 2000, Exclude: []string{"idle", "busy"}})
	}
	if after := wait(1); after < before+5 {
		t.Errorf("40 own requests: %v, then %v", before, after)
	}
	// Where nobody knows anything, it is half.
	if c := looked(fixed(t, Options{}))[0]; c.usage != unknownUsage {
		t.Errorf("got %+v", c)
	}
}

func TestNoBackendTellsTheNumbers(t *testing.T) {
	p := fixed(t, Options{
		Backends: []string{"http://a", "http://b", "http://c", "http://d"},
		Open:     func(id string) bool { return id == "b" },
	})
	pick(t, p, Demand{Exclude: []string{"b", "c", "d"}}).ReportRefused(errors.New("dial a: connection refused"))
	p.give(3, pressure.Reading{BlockSize: 16, Blocks: 11})
	_, err := p.pick(Demand{PromptTokens: 161, Exclude: []string{"c"}})
	const want = "pool big: no backend among 4: 1 down, 0 drained, 1 broken, 1 tried already, 1 with a cache too small, last: dial a: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	e, ok := errors.AsType[*NoBackendError](err)
	if !ok || !errors.Is(err, ErrNoBackend) || e.Total != 4 || e.Full != 1 {
		t.Errorf("got %+v", e)
	}
	if p.Readiness() != Ready {
		t.Error("d is healthy")
	}
}

func TestRefusedBackendIsOutAtOnceButAClientThatLeftRefusesNothing(t *testing.T) {
	p := fixed(t, Options{})
	l := pick(t, p, Demand{})
	l.ReportRefused(context.Canceled)
	if s := p.Snapshot(); s[0].State == StateDown || s[1].State == StateDown {
		t.Fatal("a client that left took a backend out")
	}
	l.ReportRefused(nil)
	l.Done(0)
	for range 10 {
		if other := pick(t, p, Demand{}); other.Backend() == l.Backend() {
			t.Fatal("picked again")
		}
	}
	pick(t, p, Demand{}).ReportRefused(errors.New("no such host"))
	if _, err := p.pick(Demand{}); !errors.Is(err, ErrNoBackend) || p.Readiness() != Down {
		t.Errorf("reach %v, %v", p.Readiness(), err)
	}
}

func TestSpeedIsLearnedPerBackendWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fixed(t, Options{Backends: []string{"http://a"}})
		for range 60 {
			l := pick(t, p, Demand{PromptTokens: 2000})
			time.Sleep(2 * time.Second) // 1,000 tokens/s
			l.FirstToken()
			time.Sleep(10 * time.Second)
			l.Done(101) // 10 tokens/s
		}
		if s := looked(p)[0]; s.prefillRate < 990 || s.prefillRate > 1010 || s.decodeRate < 9.9 || s.decodeRate > 10.1 {
			t.Errorf("learned %v and %v", s.prefillRate, s.decodeRate)
		}
		// Two at once: the second's time is explained by the first before it.
		for range 20 {
			one, two := pick(t, p, Demand{PromptTokens: 2000}), pick(t, p, Demand{PromptTokens: 2000})
			time.Sleep(2 * time.Second)
			one.FirstToken()
			time.Sleep(2 * time.Second)
			two.FirstToken()
			one.Done(0)
			two.Done(0)
		}
		if s := looked(p)[0]; s.prefillRate < 900 || s.prefillRate > 1100 {
			t.Errorf("with a queue: %v", s.prefillRate)
		}
		for range 200 {
			l := pick(t, p, Demand{PromptTokens: 2000})
			time.Sleep(time.Hour)
			l.FirstToken()
			time.Sleep(time.Hour)
			l.Done(1000)
		}
		if s := looked(p)[0]; s.prefillRate < estimate.MinPrefill || s.decodeRate < estimate.MinDecode {
			t.Errorf("below the bounds: %v and %v", s.prefillRate, s.decodeRate)
		}
	})
}

func TestLeasesOfManyGoroutinesLeaveNothingBehind(t *testing.T) {
	p := fixed(t, Options{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 500 {
				l, err := p.pick(Demand{PromptTokens: i, OutputTokens: i})
				if err != nil {
					t.Error(err)
					return
				}
				if i%3 > 0 {
					l.FirstToken()
				}
				if i%50 == 0 {
					p.give(i/50%2, pressure.Reading{KVUsage: 0.5})
				}
				l.Done(i)
			}
		})
	}
	wg.Wait()
	for _, b := range *p.set.Load() {
		if b.account.all != (totals{}) || b.account.recent != (totals{}) {
			t.Errorf("%s: %+v, %+v", b.id, b.account.all, b.account.recent)
		}
	}
}

// pick is PickInto into memory of its own.
func (p *Pool) pick(d Demand) (*Lease, error) {
	l := new(Lease)
	if err := p.PickInto(l, &d); err != nil {
		return nil, err
	}
	return l, nil
}
