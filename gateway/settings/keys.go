package settings

// Key is the Redis hash of the live settings, field = setting. It has no TTL
// and no hash tag: people type it, and eviction must not touch it.
const Key = "foregate:settings"
