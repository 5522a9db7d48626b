package main

import (
	"bytes"
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

// call runs the program in this process.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

// minConfig is a configuration of one route, whose backend nobody asks.
const minConfig = `listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {p: {model: m, backends: ["http://127.0.0.1:1"]}}
routes: [{model: m, target: p}]
drain: {delay: 0s, grace: 1s}
`

// Lines of a file of seal keys.
const (
	oneKey = "k1 0123456789abcdef0123456789abcdef\n"
)
