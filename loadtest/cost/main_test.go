// Package cost measures what the gateway costs beside a bare reverse proxy, or a bare handler, in the
// same run. It has benchmarks only (make bench). The gateway is a process of foregate; the upstream
// and what it is compared with are processes of the test binary in a role.
package cost

import (
	"fmt"
	"os"
	"testing"
)

// roleEnv makes the test binary one of roles.
const roleEnv = "FOREGATE_TEST_ROLE"

// Names of the roles.
const (
	mockName      = "mock"
	yardstickName = "yardstick"
	bareName      = "bare"
)

// roles are what the test binary can be beside itself. A role's arguments are os.Args[1:]; what it
// returns is the exit status.
var roles = map[string]func() int{
	mockName:      mockRole,
	yardstickName: yardstickRole,
	bareName:      bareRole,
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
