package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// busyMachine is what a machine that does other things, too, may add to a time that is promised.
const busyMachine = 500 * time.Millisecond

// all reports whether ok is true of every replica.
func (w *riskFleet) all(ok func(p *apptest.Replica) bool) bool {
	for _, p := range w.replicas {
		if !ok(p) {
			return false
		}
	}
	return true
}

// shares reports whether a replica is in the mode shared with so many replicas.
func shares(t *testing.T, p *apptest.Replica, members int) bool {
	t.Helper()
	page := p.Metrics(t)
	return fleetMode(page) == "shared" && strings.Contains(page, fmt.Sprintf("foregate_fleet_replicas %d\n", members))
}

// fleetMode is the mode that a page of metrics tells.
func fleetMode(page string) string {
	for _, mode := range []string{"shared", "degraded", "local"} {
		if strings.Contains(page, fmt.Sprintf("foregate_redis_mode{mode=%q} 1\n", mode)) {
			return mode
		}
	}
	return ""
}

// promised fails the test when something took longer than is promised, beyond what the
// machine may be to blame for.
func promised(t *testing.T, what string, took, limit, slowest time.Duration) {
	t.Helper()
	t.Logf("%s: %v, promised %v (slowest look %v)", what, took.Round(time.Millisecond), limit, slowest.Round(time.Millisecond))
	if took > limit+busyMachine+5*slowest {
		t.Errorf("%s: %v, promised %v", what, took, limit)
	}
}
