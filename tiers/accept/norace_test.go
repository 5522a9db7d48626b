//go:build !race

package accept

// raced says whether the race detector is on.
const raced = false
