//go:build !race

package strategy

const raced = false // the race detector is off
