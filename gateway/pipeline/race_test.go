//go:build race

package pipeline

const raced = true // the race detector is on
