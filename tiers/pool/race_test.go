//go:build race

package pool

// racing says that the race detector is on, which allocates.
const racing = true
