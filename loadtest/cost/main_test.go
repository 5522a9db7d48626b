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
