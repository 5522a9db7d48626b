//go:build race

package app_test

const raced = true // the race detector is on
