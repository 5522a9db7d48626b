//go:build race

package breaker

// raced says that the race detector is on: what is proved by many steps takes five times as long.
const raced = true
