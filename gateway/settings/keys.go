package settings

// Key is the Redis hash of the live settings, field = setting. It has no TTL and no hash tag: people type it,
// and it must not be evicted.
const Key = "foregate:settings"

// LogKey is the Redis stream of the changes that a [Store] made or found, about the last maxEntries of them.
// It has no TTL either. It is in the slot of Key, so that one transaction changes both.
const LogKey = "{foregate:settings}:log"

// MarkerKey is the Redis hash that shows whether Redis still has the data that replicas have read: a
// [marker]. It is in the slot of Key, so that both are lost together.
const MarkerKey = "{foregate:settings}:marker"

// LossKey is the Redis hash in which replicas publish a [dataLoss], so that replicas that start later know of
// it.
const LossKey = "foregate:{fg}:settings:loss"

// Fields of MarkerKey and of LossKey.
const (
	markerID      = "id"
	markerChanges = "changes"
	lossField     = "loss"
)

// maxEntries is the number of changes that are kept. An entry holds all settings after its change: 1 kB with
// twenty settings, 115 kB at most.
const maxEntries = 1000
