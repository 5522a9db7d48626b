//go:build race

package ledger

// raced says that the race detector is on.
const raced = true
