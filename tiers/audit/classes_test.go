package audit

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

var ownKey = risk.Key{Route: "m", TrafficClass: "own"}

var tenantRule = risk.Rule{MaxDisagreement: .10, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 1000}

func TestATenantHasHalfOfAClassAuditsAtMost(t *testing.T) {
	all, now := new(Classes), time.Unix(1e9, 0)
	for range 500 { // alone it may have all
		if !all.MayAudit(ownKey, "flood", now) {
			t.Fatal("a tenant that is alone is held back")
		}
		all.AddAudit(ownKey, "flood", now)
	}
	now = now.Add(10 * time.Minute)
	drawn := map[string]int{}
	for second := range 600 {
		now = now.Add(time.Second)
		for i := range 20 {
			id := "flood"
			if i == 0 && second%2 == 0 { // one in forty requests
				id = "other"
			}
			if all.MayAudit(ownKey, id, now) {
				all.AddAudit(ownKey, id, now)
				drawn[id]++
			}
		}
	}
	if n, m := drawn["flood"], drawn["other"]; m != 300 || n > 360 || n < 250 {
		t.Errorf("%d audits of the flood, %d of the other", n, m)
	}
}

// Who is alone is not set apart: nobody else's drafts depend on its evidence.
func TestATenantWhoseDraftsAreRefutedHasEvidenceOfItsOwn(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		others   bool
		badEvery int
		apart    bool
	}{"always bad": {true, 1, true}, "alone": {false, 1, false}, "one in two": {true, 2, true}, "one in twenty": {true, 20, false}} {
		all := new(Classes)
		if all.AddAudit(ownKey, "a", now); c.others {
			all.AddAudit(ownKey, "b", now)
		}
		n := 0
		for ; n < 400 && !all.IsApart(ownKey, "a", now); n++ {
			all.Settle(ownKey, "a", n%c.badEvery == 0, tenantRule, now)
		}
		if all.IsApart(ownKey, "a", now) != c.apart || c.badEvery == 1 && c.apart && n > 6 {
			t.Errorf("%s: after %d audits apart %v", name, n, !c.apart)
		}
		if all.IsApart(ownKey, "b", now) || all.IsApart(ownKey, "a", now.Add(apartFor)) {
			t.Errorf("%s: others, or for ever", name)
		}
	}
}

func TestMoreTenantsThanAreToldApartAreLearnedAnew(t *testing.T) {
	all := new(Classes)
	for i := range maxTenants + 10 {
		all.AddAudit(ownKey, time.Duration(i).String(), time.Unix(1e9, 0))
	}
	if n := len(all.of(ownKey).tenants); n != 10 || all.tenants != n || len(all.all) != 1 {
		t.Errorf("%d tenants", n)
	}
}
