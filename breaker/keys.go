package breaker

import (
	_ "embed" // the scripts

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/internal/redis/script"
)

// The keys share the hash tag {fg}, so that in a cluster one node answers a tick. They have no TTL, because a
// full Redis evicts keys with a TTL first. Their number is bounded by that of the backends, and a closed idle
// breaker has no key.
const (
	// keyBreaker, with "<pool>/<backend>" behind it, is a hash: the fleet's state of one breaker (st 0
	// closed, 1 half-open, 2 open; ep its epoch; ou open until; n the openings in a row; ur it could not be
	// reached), the lease of the testing replica (pt token, pu until, ps successes) and, while it is closed,
	// the evidence of the last ten seconds (t:<s> finished calls, f:<s> faults, u:<s> of these: not reached).
	keyBreaker = "foregate:{fg}:breaker:"
	// channelEvents carries a message for each transition, and each replica's heartbeat.
	channelEvents = "foregate:{fg}:ev"
)

// redisKey is the key of one breaker.
func redisKey(k machine.Key) string { return keyBreaker + k.Pool + "/" + k.Backend }

// Every script uses one key.
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
