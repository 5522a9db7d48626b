//go:build race

package gateway

const raced = true // the race detector is on
