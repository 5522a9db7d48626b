//go:build race

package virtual

// slow says that the race detector is on: long runs of one goroutine are left out.
const slow = true
