package app

import (
	"testing"

	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestADraftPoolWhoseLastBackendHasAnOpenBreakerReachesNobody(t *testing.T) {
	shut := true
	p, err := pool.New(pool.Options{
		Name: "p", Model: "m", Backends: []string{"http://a"},
		Open: func(string) bool { return false }, Shut: func(string) bool { return shut }, // kept open for want of others
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Observe(p.Snapshot()[0].ID, pressure.Reading{}, nil)
	if draft, target := reaches(p, p); draft != pool.Down || target != pool.Ready {
		t.Errorf("drafts %v, target %v", draft, target)
	}
	if draft, target := reaches(nil, p); draft != pool.Ready || target != pool.Ready {
		t.Errorf("without a draft pool: drafts %v, target %v", draft, target)
	}
	shut = false
	if draft, _ := reaches(p, p); draft != pool.Ready {
		t.Errorf("its breaker is closed: %v", draft)
	}
}
