//go:build !race

package limits

const raced = false
