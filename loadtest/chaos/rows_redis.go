package chaos

import (
	"context"
	"time"
)

// redisRows are faults of one Redis server and of the way to it.
func redisRows() []Row {
	return []Row{
		{
			ID: "R1", Fault: "Redis killed, and restarted empty", Promise: "0 failed requests; each replica alone ≤ 1.5 s; shared again by itself",
			Short: true, Recover: 2 * time.Second, Run: killed,
		},
	}
}

// alone is how long after Redis' end a gateway relies on nobody else's word.
const alone = 1500 * time.Millisecond

func killed(ctx context.Context, w *World) error {
	s := w.Redis.Servers[0]
	return w.Strike(ctx, w.Span(3*time.Second, 6*time.Second), func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		w.Note("alone after %v", round(w.Until(ctx, alone, "every gateway is local", func() bool { return w.InMode(ctx, "local") })))
		return nil
	}, func() error { return s.Start(ctx) })
}
