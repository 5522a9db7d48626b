package tiers

import (
	"testing"

	"github.com/foregate/foregate/tiers/probe"
)

func TestAContextIsNoLongerThanTheProbeHasFound(t *testing.T) {
	found := map[string]*probe.Capabilities{"cut": {Window: 2048}, "roomy": {Window: 8192}, "silent": {}}
	c := &Cascade{capabilities: func(pool string) *probe.Capabilities { return found[pool] }}
	for _, pool := range []string{"cut", "roomy", "silent", "unprobed"} {
		c.windows.set(pool, 4096)
	}
	found["told to the probe alone"] = &probe.Capabilities{Window: 1024}
	for pool, want := range map[string]int{"cut": 2048, "roomy": 4096, "silent": 4096, "unprobed": 4096, "told to the probe alone": 1024, "unknown": 0} {
		if got := c.contextWindow(pool); got != want {
			t.Errorf("%s: %d, not %d", pool, got, want)
		}
	}
}
