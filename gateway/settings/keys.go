package settings

// Key is the Redis hash of the live settings, field = setting. It has no TTL
// and no hash tag: people type it, and eviction must not touch it.
const Key = "foregate:settings"

// LogKey is the Redis stream of the changes that a [Store] made or found, about
// the last maxEntries of them. It has no TTL either. In a cluster it is in
// another slot than Key, so no command or transaction touches both.
const LogKey = "foregate:settings:log"

// MarkerKey is the Redis hash that tells whether the data of Redis are still those that
// replicas have read: a [mark]. It is in the slot of Key, so that both are lost together.
const MarkerKey = "{foregate:settings}:marker"

// LossKey is the Redis hash in which replicas tell of a [loss], so that those which start
// after it hear of it.
const LossKey = "foregate:{fg}:settings:loss"

// Fields of MarkerKey and of LossKey.
const (
	markerID      = "id"
	markerChanges = "changes"
	lossField     = "loss"
)

// maxEntries is how many changes are kept. One holds all settings as they were
// after it: 1 kB where twenty are set, 115 kB at the very most.
const maxEntries = 1000
