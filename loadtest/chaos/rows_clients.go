package chaos

import (
	"context"
	"slices"
	"time"
)

// hotRow is a client that asks too much.
func hotRow() Row {
	return Row{
		ID: "C17", Fault: "a tenant with 60 requests a minute sends 100 a second", Short: true, Added: -1, Tolerated: []string{Limited},
		Promise: "429 only for this tenant; at most its limit is admitted; p99 of the others ≤ 1.2 × that without it",
		Setup:   Setup{Rate: -1, Config: hotLimit}, Run: hotTenant,
	}
}

const hotRPM = 60

func hotLimit(_ int, file map[string]any) {
	eachTenant(file, func(i int, t map[string]any) {
		if i == 0 {
			delete(t, "tpm")
			t["rpm"] = hotRPM
		}
	})
}

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
