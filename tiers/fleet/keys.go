package fleet

import (
	_ "embed" // the script

	"github.com/foregate/foregate/internal/redis/calls"
)

// The keys share the hash tag {fg}, so that in a cluster one node answers a tick. None has a TTL, because a full Redis evicts
// keys with a TTL first. Their number is bounded, and timestamps inside, by Redis' clock, show how fresh they are.
const (
	// keyReplicas is a sorted set: replica id, by the ms of its last heartbeat. All versions read it.
	keyReplicas = "foregate:{fg}:replicas"
	// keyRun shows whether Redis still has its data ([detector]).
	keyRun = "foregate:{fg}:run"
	// keyTold is a hash of all topics: "<topic>/<field>" → the ms of its telling, and the text.
	keyTold = "foregate:{fg}:told1"
	// keyPlaced plus a pool's name is a stream of placements.
	keyPlaced = "foregate:{fg}:placed2:"
)

var (
	//go:embed beat.lua
	beatSource string
	beatScript = calls.NewScript(beatSource)
)

const (
	maxMembers  = 1024 // replicas
	maxBackends = 4096 // readings of all pools
	maxTidied   = 256  // fields of one hash deleted at once
	maxID       = 256  // bytes of a backend's id
	maxReplica  = 64   // bytes of a replica's id
)
