//go:build race

package tiers

// raced says that the race detector is on.
const raced = true
