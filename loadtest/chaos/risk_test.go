package chaos

import (
	"testing"
	"time"
)

func TestAPolicyIsNewerThanALossIfItsGridWasPlacedAfterwards(t *testing.T) {
	lost := time.UnixMicro(1795367996051678)
	for policy, want := range map[string]bool{
		"g1795367996051678.a0.op1": false, "g1795368000302918.a0.op1": true, "g1795367991051678.a2.op3": false, "g0.a0.op0": false, "": false, "g": false,
	} {
		if newer(policy, lost) != want {
			t.Errorf("%q is newer: %t", policy, !want)
		}
	}
}
