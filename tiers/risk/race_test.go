//go:build race

package risk

// raced says that the race detector is on: what is proved by many runs takes ten times as long.
const raced = true
