//go:build race

package limits

// raced says that the race detector is on.
const raced = true
