package applications

import (
	"testing"

	"github.com/foregate/foregate/gateway/settings"
)

func TestLook(t *testing.T) {
	for _, unknown := range []bool{true, false} {
		r := Run{Law: Designed, Seed: 1, Requests: 20_000, PerSecond: 1, Replicas: 3, Unknown: unknown, Settings: settings.Defaults()}.Do()
		t.Logf("unknown %v scores %d", unknown, r.Scores)
		for from := 0; from < 20_000; from += 1000 {
			w := r.Over(from, from+1000)
			t.Logf("%6d share %.3f disagreement %.3f audits %d served %v", from, w.Share(), w.Disagreement(), w.Audits, w.ServedOf)
		}
	}
}
