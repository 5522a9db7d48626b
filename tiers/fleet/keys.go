package fleet

import (
	_ "embed" // the scripts

	"github.com/foregate/foregate/internal/redis/script"
)

// The keys share the hash tag {fg}, so that in a cluster one node answers a tick. Only topics have a TTL, because a
// full Redis evicts keys with a TTL first. Their number is bounded, and timestamps inside, by Redis' clock,
// show how fresh they are.
const (
	// keyReplicas is a sorted set: replica id, by the ms of its last heartbeat.
	keyReplicas = "foregate:{fg}:replicas"
	// keyRun shows whether Redis still has its data (package dataloss).
	keyRun = "foregate:{fg}:run"
	// keyPressure plus a pool's name is a hash: backend → reading.
	keyPressure = "foregate:{fg}:pressure:"
	// keyPlaced plus a pool's name is a stream of placements.
	keyPlaced = "foregate:{fg}:placed:"
	// keyDrain is a hash: "<pool>/<backend>" → reason and end.
	keyDrain = "foregate:{fg}:drain"
	// keyTopic plus a topic's name is a hash of its texts by field, for an hour.
	keyTopic = "foregate:{fg}:"
)

// Every script uses one key.
var (
	//go:embed beat.lua
	beatSource string
	//go:embed share.lua
	shareSource string
	//go:embed tidy.lua
	tidySource string
	//go:embed drain.lua
	drainSource string

	beatScript  = script.New(beatSource)
	shareScript = script.New(shareSource)
	tidyScript  = script.New(tidySource)
	drainScript = script.New(drainSource)
)

const (
	maxMembers  = 1024 // replicas
	maxBackends = 4096 // fields of a pool's hash; a larger hash is deleted and published again
	maxDrains   = 4096 // fields of the drains' hash
	maxTidied   = 256  // fields of one hash deleted at once
	maxID       = 256  // bytes of a backend's id
	maxReplica  = 64   // bytes of a replica's id
)
