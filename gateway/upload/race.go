//go:build race

package upload

const raced = true // the race detector is on
