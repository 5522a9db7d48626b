// Package cost measures what the gateway costs beside a reverse proxy written in Go (the yardstick) and beside nginx, in the
// same run. It has benchmarks only (make bench). Every measured process runs alone on one core; the clients, the engine and
// Redis run on another one. The yardstick and the engine are processes of the test binary in a role.
package cost

import (
	"fmt"
	"os"
	"testing"
)

// roleEnv names the role in which the test binary runs.
const roleEnv = "FOREGATE_TEST_ROLE"

// Names of the roles.
const (
	mockName      = "mock"
	yardstickName = "yardstick"
)

// roles are the programs that the test binary can be. A role's arguments are os.Args[1:]; it returns the exit status.
var roles = map[string]func() int{
	mockName:      mockRole,
	yardstickName: yardstickRole,
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
