//go:build !race

package breaker

const raced = false
