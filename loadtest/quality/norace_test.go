//go:build !race

package quality

// raced reports that the race detector watches.
const raced = false
