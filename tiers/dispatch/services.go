package dispatch

import (
	"strconv"
	"sync/atomic"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/world"
)

// Options wires a Dispatcher. All of them are needed.
type Options struct {
	World    world.World
	Upstream engine.Upstream
	Queue    Queue
	Breaker  Breaker
	Scores   *ScoreLimiter
	Metrics  Metrics
	Window   func(pool string) int // a pool's context length in tokens; 0 while it is unknown
}

// services is what all exchanges of a Dispatcher use.
type services struct {
	Options
	calls atomic.Uint64 // that were ever made: their numbers
}

// CallName is what the id that a backend is told of a call has behind the request's own id and a
// hyphen. No two calls of a replica have the same.
func CallName(call uint64) string { return strconv.FormatUint(call, 36) }
