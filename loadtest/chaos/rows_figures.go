package chaos

import (
	"context"
	"time"
)

// figureRows are figures of the scoreboard that need no fault.
func figureRows() []Row {
	return []Row{
		{
			ID: "S4a", Fault: "none: round trips to Redis, tenants with a limit of requests", Promise: "≤ 1 per request", Short: true,
			Setup: Setup{Config: without("tpm"), Settings: cacheOff}, Run: roundTrips(1),
		},
		{
			ID: "S4b", Fault: "none: round trips to Redis, tenants without limits", Promise: "0 per request",
			Setup: Setup{Config: without("rpm", "tpm"), Settings: cacheOff}, Run: roundTrips(0),
		},
		{
			ID: "S25", Fault: "none: settings changed repeatedly", Promise: "in force everywhere ≤ 1 s, each time", Run: spreading,
		},
	}
}

// cacheOff is for rows of what else there is.
var cacheOff = map[string]string{"cache.mode": "off"}

// everyLookup has no limits, and no copies of answers in the gateways: each request asks Redis.
func everyLookup(i int, file map[string]any) {
	without("rpm", "tpm")(i, file)
	file["cache"] = map[string]any{"local_bytes": "0"}
}

// without takes limits out of the tenants' configuration.
func without(names ...string) func(int, map[string]any) {
	return func(_ int, file map[string]any) {
		tenants, _ := file["tenants"].([]any) // made by Testbed.config
		for _, t := range tenants {
			for _, name := range names {
				delete(t.(map[string]any), name)
			}
		}
	}
}

// roundTrips compares the turns on the wire under load with those without.
func roundTrips(maximum float64) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		span := w.Span(3*time.Second, 10*time.Second)
		count := func() (turns, sent float64, err error) {
			was, began := w.Redis.Passed().RoundTrips, w.sent()
			err = w.Hold(ctx, span)
			return float64(w.Redis.Passed().RoundTrips - was), float64(w.sent() - began), err
		}
		w.Phase(During)
		busy, sent, err := count()
		if err != nil {
			return err
		}
		w.Load.Stop()
		idle, _, err := count()
		if err != nil {
			return err
		}
		per := (busy - idle) / max(1, sent)
		w.Note("%.2f round trips a request; %.0f a second without load", per, idle/span.Seconds())
		if per > maximum+exchanges*float64(len(w.Gateways))*span.Seconds()/max(1, sent) {
			w.Fail("%.2f round trips a request, promised %.0f", per, maximum)
		}
		return nil
	}
}

// exchanges is how many round trips a second a gateway may make more because there is
// load: evidence for breakers, placements. They are made per exchange, not per request.
const exchanges = 4.0

// sent is how many requests all loads have sent.
func (w *Testbed) sent() (n int) {
	for _, l := range w.loads {
		n += l.Sent()
	}
	return n
}

func spreading(ctx context.Context, w *Testbed) error {
	times := 5
	if !w.Short() {
		times = 100
	}
	w.Phase(During)
	for range times {
		w.settingSpreads(ctx, w.Redis.Servers[0], time.Second)
	}
	w.notes = []string{w.notes[len(w.notes)-1]}
	w.Note("the last of %d", times)
	return nil
}
