//go:build race

package strategy

const raced = true // the race detector is on
