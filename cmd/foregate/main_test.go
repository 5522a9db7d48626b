package main

import (
	"fmt"
	"os"
	"testing"
)

// roleEnv makes this test binary be something else: tests that need a process
// of its own start the binary again with it set to one of roles.
const roleEnv = "FOREGATE_TEST_ROLE"

// roles are what the test binary can be beside itself. A role's arguments are
// os.Args[1:]; what it returns is the exit status.
var roles = map[string]func() int{
	"foregate": func() int { return run(os.Args[1:], os.Stdout, os.Stderr) },
}

func TestMain(m *testing.M) {
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
