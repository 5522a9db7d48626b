package tiers

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/tiers/plan"
)

func TestRoutesThatAreReplacedHoldForLaterRequestsAndABadListChangesNothing(t *testing.T) {
	target := testPool(t, "targets", "big", "http://127.0.0.1:9")
	config := func() plan.Config { return testConfig() }
	c := newTestCascade(t, Route{Model: "m", Target: target, Config: config})
	if err := c.SetRoutes([]Route{{Model: "m", Target: target, Config: config}, {Model: "n", Target: target, Config: config}}); err != nil {
		t.Fatal(err)
	}
	if rt, err := c.Route("n"); err != nil || rt.Target != target {
		t.Error(err)
	}
	for name, bad := range map[string][]Route{
		"no target": {{Model: "x", Config: config}}, "no config": {{Model: "x", Target: target}}, "no model": {{Target: target, Config: config}},
		"twice": {{Model: "x", Target: target, Config: config}, {Model: "x", Target: target, Config: config}},
	} {
		if err := c.SetRoutes(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := c.Route("x"); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a route of a bad list: %v", err)
	}
	if err := c.SetRoutes([]Route{{Model: "n", Target: testPool(t, "targets", "bigger", "http://127.0.0.1:9"), Config: config}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Route("m"); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a route that was removed: %v", err)
	}
}
