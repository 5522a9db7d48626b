package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// clientRows are clients that ask too much, too often, or for too high a priority.
func clientRows() []Row {
	return []Row{
		{
			ID: "C16", Fault: "retry storm: clients that retry twice, as SDKs do, at 3 × overload", Added: -1, Tolerated: []string{Shed},
			Promise: "attempts ÷ first tries ≤ 1.11; 0 errors except shedding",
			Setup: Setup{
				Drafts: -1, Rate: -1, Config: without("rpm", "tpm"), Sim: smallMemory,
				Settings: map[string]string{"shed.max_wait_low": "0s", "shed.max_wait_normal": "200ms", "shed.max_wait_high": "500ms"},
			}, Run: retryStorm,
		},
		{
			ID: "C17", Fault: "a tenant with 60 requests a minute sends 100 a second", Short: true, Added: -1, Tolerated: []string{Limited},
			Promise: "429 only for this tenant; at most its limit is admitted; p99 of the others ≤ 1.2 × that without it",
			Setup:   Setup{Rate: -1, Config: hotLimit}, Run: hotTenant,
		},
		{
			ID: "C18", Fault: "all requests with priority high, from a tenant that may not use it and from one that may", Added: -1,
			Promise: "the first is clamped, the second demoted above its share; both counted; 0 failed",
			Setup:   Setup{Rate: -1, Config: proudLimits, Settings: map[string]string{"limit.high_priority_share": "0.05"}}, Run: allHigh,
		},
	}
}

// smallMemory has a backend hold about 20 answers of 150 tokens, which it makes in 3 s.
func smallMemory(o *vllmsim.Options) { o.TimeScale, o.BlocksOverride = 1, 250 }

const (
	stormRate   = 40.0 // first tries a second; the two backends do about 13
	sdkRetries  = 2
	sdkPause    = 500 * time.Millisecond
	maxSDKDelay = 8 * time.Second
	sdkObeys    = time.Minute
	amplified   = 1.11 // attempts ÷ first tries; the gateway invites one retry for ten first tries
	retryHeader = "X-Stainless-Retry-Count"
)

// storm counts what clients did.
type storm struct {
	mu              sync.Mutex
	first, attempts int
	forbidden       int // retries that X-Should-Retry: false kept back
	lost            int // callers that got no answer at all
}

// retryStorm sends first tries at a steady rate; each client retries as OpenAI's and
// Anthropic's SDKs do.
func retryStorm(ctx context.Context, w *Testbed) error {
	w.injections++
	w.Phase(During)
	l := w.StartLoad(1, nil)
	l.Stop()
	l.Phase(During)
	var s storm
	var clients sync.WaitGroup
	tick := time.NewTicker(time.Duration(float64(time.Second) / stormRate))
	defer tick.Stop()
	for end, n := time.Now().Add(w.Span(15*time.Second, time.Minute)), 0; time.Now().Before(end); n++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		clients.Go(func() { s.call(ctx, w, l, n) })
	}
	clients.Wait()
	is := float64(s.attempts) / float64(max(s.first, 1))
	w.Note("%d first tries, %d attempts: × %.2f; %d callers were told not to retry, %d got no answer", s.first, s.attempts, is, s.forbidden, s.lost)
	if is > amplified {
		w.Fail("amplification %.2f", is)
	}
	if s.lost == 0 {
		w.Fail("nobody was shed: no overload")
	}
	return nil
}

// call is one caller of an SDK.
func (s *storm) call(ctx context.Context, w *Testbed, l *Load, n int) {
	for try := range sdkRetries + 1 {
		r := Request{Tenant: Tenants[n%2], Priority: [...]string{"normal", "low"}[n/2%2], Stream: true, Tokens: crowdTokens, Header: http.Header{retryHeader: {strconv.Itoa(try)}}}
		o := l.send(w.Gateways[(n+try)%len(w.Gateways)], n, r)
		l.Keep(o)
		pause, again := sdkWaits(&o, try)
		s.mu.Lock()
		s.attempts++
		if try == 0 {
			s.first++
		}
		if o.Kind != Answered && (!again || try == sdkRetries) {
			s.lost++
			if o.Header.Get("X-Should-Retry") == "false" {
				s.forbidden++
			}
		}
		s.mu.Unlock()
		if o.Kind == Answered || !again || try == sdkRetries || w.Hold(ctx, pause) != nil {
			return
		}
	}
}

// sdkWaits is how long an SDK waits before it tries again, if it does.
func sdkWaits(o *Outcome, try int) (pause time.Duration, again bool) {
	switch o.Header.Get("X-Should-Retry") {
	case "false":
		return 0, false
	case "true":
	default:
		if o.Kind != Shed && o.Kind != Limited {
			return 0, false
		}
	}
	if seconds, err := strconv.Atoi(o.Header.Get("Retry-After")); err == nil {
		if d := time.Duration(seconds) * time.Second; d > 0 && d <= sdkObeys {
			return d, true
		}
	}
	d := min(sdkPause<<try, maxSDKDelay)
	return d - time.Duration(rand.Float64()*0.25*float64(d)), true //nolint:gosec // jitter
}

// tenantsFile changes the first tenant's and the second's part of a configuration.
func tenantsFile(file map[string]any, change ...map[string]any) {
	tenants, _ := file["tenants"].([]any) // made by Testbed.config
	for i, c := range change {
		if t, ok := tenants[i].(map[string]any); ok {
			delete(t, "tpm")
			for name, value := range c {
				t[name] = value
			}
		}
	}
}

const hotRPM = 60

func hotLimit(_ int, file map[string]any) { tenantsFile(file, map[string]any{"rpm": hotRPM}) }

// hotTenant measures the second tenant alone, and then beside the first.
func hotTenant(ctx context.Context, w *Testbed) error {
	others := w.StartLoad(usualRate, func(n int) Request {
		r := usualLoad(n)
		r.Tenant = Tenants[1]
		return r
	})
	span := w.Span(4*time.Second, 15*time.Second)
	if err := w.Hold(ctx, span); err != nil {
		return err
	}
	w.injections++
	w.Phase(During)
	hot := w.StartLoad(100*hotRPM/60, func(n int) Request {
		r := usualLoad(n)
		r.Tenant = Tenants[0]
		return r
	})
	hot.Phase(During)
	if err := w.Hold(ctx, span); err != nil {
		return err
	}
	hot.Stop()
	others.Stop()
	served, refused, untold := 0, 0, 0
	for _, o := range hot.Outcomes() {
		switch o.Kind {
		case Answered:
			served++
		case Limited:
			refused++
			if o.Header.Get("Retry-After") == "" {
				untold++
			}
		}
	}
	was, is := p99(others.Outcomes(Before)), p99(others.Outcomes(During))
	w.Note("the hot one: %d answered, %d refused in %v; the others' p99 %v, alone %v", served, refused, span, round(is), round(was))
	for _, o := range others.Outcomes() {
		if o.Kind != Answered {
			w.Fail("another tenant: %s: %s", o.Kind, o.Detail)
		}
	}
	if maximum := hotRPM*span.Minutes()*1.02 + 3 + 1; float64(served) > maximum {
		w.Fail("the hot tenant had %d requests answered, at most %.0f are due", served, maximum)
	}
	if untold > 0 || refused == 0 {
		w.Fail("%d refused, %d without Retry-After", refused, untold)
	}
	if is > w.TimerLag.Bound(time.Duration(1.2*float64(was))) {
		w.Fail("the others' p99 %v, alone %v", round(is), round(was))
	}
	return nil
}

// p99 is of the time to the first byte.
func p99(all []Outcome) time.Duration {
	times := slices.Concat(firsts(all, true), firsts(all, false))
	slices.Sort(times)
	if len(times) == 0 {
		return 0
	}
	return times[len(times)*99/100]
}

const (
	proudRPM  = 1200
	proudHigh = proudRPM * 0.05 // a minute may be high, a quarter of them at once
)

func proudLimits(_ int, file map[string]any) {
	tenantsFile(file, map[string]any{"max_priority": "normal"}, map[string]any{"rpm": proudRPM, "max_priority": "high"})
}

// allHigh sends only requests of priority high, and looks how they were booked.
func allHigh(ctx context.Context, w *Testbed) error {
	const rate = 24.0 // half of it by each tenant
	booked := func() (high, normal, demoted float64, err error) {
		for _, g := range w.Gateways {
			m, err := g.Metrics(ctx)
			if err != nil {
				return 0, 0, 0, err
			}
			high += m.Sum("foregate_requests_total", `priority="high"`, `route="`+RouteModel+`"`)
			normal += m.Sum("foregate_requests_total", `priority="normal"`, `route="`+RouteModel+`"`)
			demoted += m.Sum("foregate_limit_demoted_total")
		}
		return high, normal, demoted, nil
	}
	high0, normal0, demoted0, err := booked()
	if err != nil {
		return err
	}
	w.injections++
	w.Phase(During)
	l := w.StartLoad(rate, func(n int) Request {
		return Request{Tenant: Tenants[n%2], Priority: "high", Stream: n/2%2 == 0, Tokens: 12}
	})
	l.Phase(During)
	span := w.Span(5*time.Second, 30*time.Second)
	if err := w.Hold(ctx, span); err != nil {
		return err
	}
	l.Stop()
	high1, normal1, demoted1, err := booked()
	if err != nil {
		return err
	}
	high, normal, demoted := high1-high0, normal1-normal0, demoted1-demoted0
	half := float64(l.Sent()) / 2
	due := proudHigh/4 + proudHigh*span.Minutes()
	w.Note("%d sent; %.0f served as high, %.0f due; %.0f as normal, %.0f of them demoted, %.0f clamped", l.Sent(), high, due, normal, demoted, normal-demoted)
	if high > due*1.1+4 || high < due*0.8-2 {
		w.Fail("%.0f served as high, %.0f are due", high, due)
	}
	if clamped := normal - demoted; clamped < half-2 || clamped > half+2 {
		w.Fail("%.0f of %.0f were clamped", clamped, half)
	}
	return nil
}
