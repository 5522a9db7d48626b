package evidence

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

func TestTheLogInTheProcessIsBounded(t *testing.T) {
	m := &Memory{Now: time.Now}
	for range maxEntries + 1 {
		if _, _, err := m.exchange(t.Context(), "r", &risk.Entry{Do: risk.DoSaved}, risk.ID{MS: 1 << 62}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.logs["r"]); n >= maxEntries || n < maxEntries/2 {
		t.Errorf("%d entries", n)
	}
}
