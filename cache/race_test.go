//go:build race

package cache

// raced says that the race detector is on: what is proved by many steps takes five times as long.
const raced = true
