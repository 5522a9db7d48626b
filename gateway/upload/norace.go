//go:build !race

package upload

const raced = false // the race detector is off
