package main

import (
	"fmt"
	"os"
	"testing"
)

// beForegate makes this test binary the program itself, so that the end-to-end
// tests drive the real main path, race detector and all, in a process of its own.
const beForegate = "FOREGATE_TEST_BE_FOREGATE"

// roleEnv makes it one of roles, for tests that need other processes.
const roleEnv = "FOREGATE_TEST_ROLE"

// roles are what the test binary can be beside itself. A role's arguments are
// os.Args[1:]; what it returns is the exit status.
var roles = map[string]func() int{
	"cost-mock":      mockRole,
	"cost-yardstick": yardstickRole,
	"cost-gateway":   gatewayRole,
	"hits-bare":      bareRole,
}

func TestMain(m *testing.M) {
	if os.Getenv(beForegate) != "" {
		main()
	}
	name := os.Getenv(roleEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no role %q\n", roleEnv, name)
		os.Exit(2)
	}
	os.Exit(role())
}
