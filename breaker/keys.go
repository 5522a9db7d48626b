package breaker

import (
	_ "embed" // the scripts

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/internal/redis/script"
)

// The keys share the hash tag {fg}, so that a cluster answers a tick from one node. They have
// no TTL, because a flood of cached answers evicts what has one first; their number is that
// of the backends, and one that is closed and idle is absent.
const (
	// keyBreaker, with "<pool>/<backend>" behind it, is a hash: the fleet's state of one
	// breaker (st 0 closed, 1 half-open, 2 open; ep its epoch; ou open until; n the openings
	// in a row; ur it could not be reached), the lease of whoever tests it (pt token, pu
	// until, ps successes) and, while it is closed, the evidence of the last ten seconds
	// (t:<s> finished calls, f:<s> faults, u:<s> of these: not reached).
	keyBreaker = "foregate:{fg}:breaker:"
	// channelEvents carries a word of each transition, and each replica's beat.
	channelEvents = "foregate:{fg}:ev"
)

// redisKey is that of one breaker.
func redisKey(k machine.Key) string { return keyBreaker + k.Pool + "/" + k.Backend }

// Every script touches one key.
var (
	//go:embed sync.lua
	syncSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed result.lua
	resultSource string

	syncScript    = script.New(syncSource)
	acquireScript = script.New(acquireSource)
	resultScript  = script.New(resultSource)
)
