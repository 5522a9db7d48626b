package tiers

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/tiers/plan"
)

func TestRoutesThatAreReplacedHoldForLaterRequests(t *testing.T) {
	target := testPool(t, "targets", "big", "http://127.0.0.1:9")
	config := func() plan.Config { return testConfig() }
	c := newTestCascade(t, Route{Model: "m", Target: target, Config: config})
	c.SetRoutes([]Route{{Model: "m", Target: target, Config: config}, {Model: "n", Target: target, Config: config}})
	if rt, err := c.Route("n"); err != nil || rt.Target != target {
		t.Error(err)
	}
	c.SetRoutes([]Route{{Model: "n", Target: testPool(t, "targets", "bigger", "http://127.0.0.1:9"), Config: config}})
	if _, err := c.Route("m"); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a route that was removed: %v", err)
	}
}
