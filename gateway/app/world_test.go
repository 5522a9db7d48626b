package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// What worlds of simulated engines have in common.
const (
	routeUsual = "llama-3"
	simDraft   = "sim/draft"
	simTarget  = "sim/target"
	simSeed    = 1
	simScale   = 50
)

// conf is a configuration: listeners at free ports, and what else a test wants.
func conf(format string, args ...any) string {
	return "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, grace: 5s}\n" + fmt.Sprintf(format, args...)
}

// withSettings is the line of a configuration with a Redis that has these live settings: names and values in turn.
func withSettings(t *testing.T, fields ...string) string {
	t.Helper()
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", fields...)
	return fmt.Sprintf("redis: {url: \"redis://%s\"}\n", store.Addr())
}

// probed waits until the engines of so many pools were probed.
func probed(t *testing.T, r *apptest.Replica, pools int) {
	t.Helper()
	apptest.Eventually(t, "the pools are probed", func() bool {
		return strings.Count(r.Metrics(t), "\nforegate_probe_age_seconds{") == pools
	})
}

// shares reports whether a replica is in the mode shared with so many replicas.
func shares(t *testing.T, p *apptest.Replica, members int) bool {
	t.Helper()
	page := p.Metrics(t)
	return strings.Contains(page, "foregate_redis_mode{mode=\"shared\"} 1\n") && strings.Contains(page, fmt.Sprintf("foregate_fleet_replicas %d\n", members))
}
