package audit

import "testing"

func TestARouteSavesUpForSoManyAuditsOnly(t *testing.T) {
	var b budget
	for range 1000 {
		b.earn(3)
	}
	if b.balance != 3*maxBalance {
		t.Errorf("before an audit: saved %g", b.balance)
	}
	b = budget{}
	b.spend(10)
	b.spend(0) // one that asked nobody
	for range 1000 {
		b.earn(10)
	}
	if b.balance != 10*maxBalance {
		t.Errorf("saved %g", b.balance)
	}
	b.earn(-1e6)
	if b.earn(0); b.balance >= 0 {
		t.Errorf("a debt is forgotten: %g", b.balance)
	}
}
