package fleet

import (
	_ "embed" // the scripts

	"github.com/foregate/foregate/internal/redis/script"
)

// The keys share the hash tag {fg}, so that a cluster answers a tick from one node.
// None has a TTL: a flood of cached answers evicts what has one first. Their number is
// bounded, and freshness is inside, by Redis' clock.
const (
	// keyReplicas is a sorted set: replica id, by the ms of its last heartbeat.
	keyReplicas = "foregate:{fg}:replicas"
	// keyPressure, with a pool's name behind it, is a hash: backend → reading.
	keyPressure = "foregate:{fg}:pressure:"
	// keyPlaced, with a pool's name behind it, is a stream of placements.
	keyPlaced = "foregate:{fg}:placed:"
	// keyDrain is a hash: "<pool>/<backend>" → why, and until when.
	keyDrain = "foregate:{fg}:drain"
)

// Every script touches one key.
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
	maxMembers  = 1024 // replicas believed in
	maxBackends = 4096 // fields of a pool's hash; one with more is dropped and told anew
	maxDrains   = 4096 // fields of the drains' hash
	maxTidied   = 256  // fields of one hash deleted at once
	maxID       = 256  // bytes of a backend's id
	maxReplica  = 64   // bytes of a replica's id
)
