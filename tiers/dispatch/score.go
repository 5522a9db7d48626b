package dispatch

import (
	"errors"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/world"
)

// scorePermit is leave to ask for a score, by scoring's own breaker.
type scorePermit struct {
	world world.World
	leave func(scoreEnd, time.Time)
}

// Report implements [Permit].
func (p scorePermit) Report(err error) { p.leave(scoreOutcome(err), p.world.Now()) }

// scoreOutcome tells what a score's end says of scoring: an engine that is gone in the midst
// of one is taken to have died of it.
func scoreOutcome(err error) scoreEnd {
	f, _ := errors.AsType[*engine.Failure](err)
	switch {
	case err == nil:
		return scoreGood
	case f == nil, f.StaleConnection, f.Kind == engine.Silent, f.Kind == engine.ClientGone, f.Kind == engine.Expired, f.Kind == engine.Exhausted,
		f.Kind == engine.Refused, f.Kind == engine.Backpressure, f.Kind == engine.Rejected, f.Kind == engine.WrongModel, f.Kind == engine.Unauthorized:
		return scoreNeutral
	case f.Kind == engine.Reset, f.Kind == engine.Cut,
		f.Kind == engine.ServerError && f.Fault != nil && strings.HasPrefix(f.Fault.Message, engineDied):
		return scoreDied
	}
	return scoreFault
}

// engineDied begins what vLLM's front end says of an engine that has just died, before it ends
// itself (its EngineDeadError).
const engineDied = "EngineCore encountered an issue"
