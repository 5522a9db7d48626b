//go:build !race

package virtual

const slow = false
