package chaos

import (
	"context"
	"time"
)

// figureRows are figures of the scoreboard that need no fault.
func figureRows() []Row {
	return []Row{
		{
			ID: "S4a", Fault: "none: round trips to Redis, tenants with a limit of requests", Promise: "≤ 1 a request", Short: true,
			Shape: Shape{Config: without("tpm")}, Run: roundTrips(1),
		},
		{
			ID: "S4c", Fault: "none: round trips to Redis, tenants with limits of requests and tokens", Promise: "≤ 1 a request, and one after it to settle",
			Run: roundTrips(2),
		},
		{
			ID: "S4b", Fault: "none: round trips to Redis, tenants without limits", Promise: "0 a request",
			Shape: Shape{Config: without("rpm", "tpm")}, Run: roundTrips(0),
		},
		{
			ID: "S25", Fault: "none: settings changed over and over", Promise: "in force everywhere ≤ 1 s, each time", Run: spreading,
		},
	}
}

// absentRows are promises of what there is not.
func absentRows() []Row {
	const why = "the response cache does not exist in this release"
	return []Row{
		{ID: "R9", Fault: "corrupted cached value", Promise: "miss; never a wrong byte", Absent: why},
		{ID: "R10", Fault: "cached value of another key", Promise: "miss", Absent: why},
		{ID: "R18", Fault: "coalescing leader dies", Promise: "a follower takes over ≤ 2 s", Absent: why},
		{ID: "R19", Fault: "embedded store fills", Promise: "own cap, oldest out", Absent: why},
	}
}

// without takes limits out of the tenants' configuration.
func without(names ...string) func(int, map[string]any) {
	return func(_ int, file map[string]any) {
		tenants, _ := file["tenants"].([]any) // made by World.config
		for _, t := range tenants {
			for _, name := range names {
				delete(t.(map[string]any), name)
			}
		}
	}
}

// roundTrips compares the turns on the wire under load with those without.
func roundTrips(most float64) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		span := w.Span(3*time.Second, 10*time.Second)
		count := func() (turns, sent float64, err error) {
			was, began := w.Redis.Passed().Turns, w.sent()
			err = w.Hold(ctx, span)
			return float64(w.Redis.Passed().Turns - was), float64(w.sent() - began), err
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
		if per > most+exchanges*float64(len(w.Gateways))*span.Seconds()/max(1, sent) {
			w.Break("%.2f round trips a request, promised %.0f", per, most)
		}
		return nil
	}
}

// exchanges is how many round trips a second a gateway may make more because there is
// load: evidence for breakers, placements. They are made per exchange, not per request.
const exchanges = 4.0

// sent is how many requests all loads have sent.
func (w *World) sent() (n int) {
	for _, l := range w.loads {
		n += l.Sent()
	}
	return n
}

func spreading(ctx context.Context, w *World) error {
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
