//go:build !race

package pipeline

const raced = false
