//go:build !race

package cache

const raced = false
