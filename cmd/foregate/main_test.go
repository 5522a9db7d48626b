package main

import (
	"os"
	"testing"
)

// beForegate makes this test binary the program itself, so that the end-to-end
// tests drive the real main path, race detector and all, in a process of its own.
const beForegate = "FOREGATE_TEST_BE_FOREGATE"

func TestMain(m *testing.M) {
	if os.Getenv(beForegate) != "" {
		main()
	}
	os.Exit(m.Run())
}
