package settings

// Key is the Redis hash of the live settings, field = setting. It has no TTL and no hash tag: people type it,
// and it must not be evicted.
const Key = "foregate:settings"

// LogKey is the Redis stream of the changes that a [Store] made or found, about the last maxEntries of them.
// It has no TTL either. It is in the slot of Key, so that one transaction changes both, and both are lost together.
const LogKey = "{foregate:settings}:log"

// maxEntries is the number of changes that are kept. An entry holds all settings after its change: 1 kB with
// twenty settings, 115 kB at most.
const maxEntries = 1000
