package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

// ends has a tenant's call to the backend a end with err, and reports whether it was allowed.
func ends(s *Set, tenant string, err error) bool {
	p, refused := s.Allow("big", "a", tenant)
	if refused != nil {
		return false
	}
	p.Report(err)
	return true
}

func TestOneTenantsFaultsTakeNoBackendFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		s.Retain("big", []string{"a", "b"})
		for i := range 600 { // a minute
			time.Sleep(100 * time.Millisecond)
			for range 3 {
				ends(s, "attacker", errBad)
			}
			if i%20 == 0 && !ends(s, "innocent", nil) { // rarely, so that the share of faults is nearly 1
				t.Fatalf("refused after %v", time.Duration(i)*100*time.Millisecond)
			}
		}
	})
}

func TestFaultsOfTwoTenantsOrOfTheOnlyOneOpenABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		s.Retain("big", []string{"a", "b"})
		ends(s, "one", nil)
		ends(s, "two", nil)
		for i := range 40 {
			if i%10 == 9 { // a tenant with most of the traffic, and one with little
				ends(s, "two", errBad)
			}
			ends(s, "one", errBad)
		}
		if !s.Open("big", "a") {
			t.Error("all tenants' calls fail, and it is closed")
		}

		s = set(Options{})
		s.Retain("big", []string{"a", "b"})
		if p, err := s.Allow("big", "b", "two"); err == nil {
			p.Report(nil) // only another backend answers the other tenant
		}
		for ends(s, "one", errBad) {
		}
		if !s.Open("big", "a") {
			t.Error("it has answered nobody, and it is closed")
		}

		s = set(Options{})
		s.Retain("big", []string{"a", "b"})
		ends(s, "two", nil)
		for time.Sleep(Bucket*Buckets + time.Second); ends(s, "one", errBad); {
		}
		if !s.Open("big", "a") {
			t.Error("nobody else was answered within the window, and it is closed")
		}
		if s.Allow("big", "b", "one"); s.Open("big", "b") {
			t.Error("another backend is open")
		}
	})
}

func TestAnUnreachableBackendIsNoTenantsFault(t *testing.T) {
	s := set(Options{})
	s.Retain("big", []string{"a", "b"})
	ends(s, "two", nil)
	for range 5 {
		ends(s, "one", errUnreachable)
	}
	if !s.Open("big", "a") {
		t.Error("closed, though no connection can be made")
	}
}
