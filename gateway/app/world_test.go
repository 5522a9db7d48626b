package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

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
