//go:build race

package vllmsim

// raceEnabled tells tests that do a lot that they are slowed tenfold.
const raceEnabled = true
