package settings

// Key is the Redis hash of the live settings, field = setting. It has no TTL and no hash tag: people type it,
// and it must not be evicted.
const Key = "foregate:settings"

// LogKey is the Redis stream of the changes that a [Store] made or found, about the last maxEntries of them.
// It has no TTL either. It is in the slot of Key, so that one transaction changes both.
const LogKey = "{foregate:settings}:log"

// RunKey shows whether Redis still has the data that replicas have read ([calls.Detector]). It is in the slot of Key, so
// that both are lost together.
const RunKey = "{foregate:settings}:run"

// Topic names what replicas tell each other about settings that Redis lost.
const Topic = "lost:1"

// maxEntries is the number of changes that are kept. An entry holds all settings after its change: 1 kB with
// twenty settings, 115 kB at most.
const maxEntries = 1000
