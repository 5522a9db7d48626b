package budgets

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

func TestWindowsAreThoseOfTheUTCCalendar(t *testing.T) {
	at := time.Date(2024, 2, 29, 23, 59, 59, 999, time.FixedZone("west", -5*60*60)) // 2024-03-01 04:59:59 UTC
	for _, c := range []struct {
		per        identity.Period
		begin, end string
		key        string
	}{
		{identity.Hour, "2024-03-01T04:00:00Z", "2024-03-01T05:00:00Z", "2024-03-01T04"},
		{identity.Day, "2024-03-01T00:00:00Z", "2024-03-02T00:00:00Z", "2024-03-01"},
		{identity.Month, "2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z", "2024-03"},
	} {
		begin, end := c.per.Window(at)
		if begin.Format(time.RFC3339) != c.begin || end.Format(time.RFC3339) != c.end {
			t.Errorf("%s: %v to %v", c.per, begin, end)
		}
		if got := keyOf("a:b", c.per, begin); got != "foregate:{fg}:budget:"+c.key+":a:b" {
			t.Errorf("key %s", got)
		}
	}
	if _, end := identity.Month.Window(time.Date(2023, 12, 31, 23, 0, 0, 0, time.UTC)); !end.Equal(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("December ends at %v", end)
	}
}

func TestDollarsAreCountedInWholeNanoDollarsRoundedUp(t *testing.T) {
	for usd, want := range map[float64]int64{
		0: 0, -1: 0, 1e-12: 1, 1e-9: 1, 1.5e-9: 2, 0.25: 250_000_000, 1e12: maxAmount, math.Inf(1): maxAmount, math.Inf(-1): 0,
	} {
		if got := nanos(usd); got != want {
			t.Errorf("%g: %d, want %d", usd, got, want)
		}
	}
	if got := nanos(math.NaN()); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}

func TestAReplicaByItselfAddsItsPartOfWhatWasLeft(t *testing.T) {
	b := tokensPer(100, identity.Day)
	for _, c := range []struct {
		name              string
		others, base, own int64 // own includes ask
		ask               int64
		replicas          int
		want              bool
	}{
		{"nothing is spent", 0, 0, 33, 33, 3, true},
		{"more than its part", 0, 0, 34, 34, 3, false},
		{"alone it has all", 0, 0, 100, 100, 1, true},
		{"alone it has no more", 0, 0, 101, 101, 1, false},
		{"what others have spent is gone", 70, 0, 10, 10, 3, true},
		{"and its part is smaller", 70, 0, 11, 11, 3, false},
		{"its own before the loss does not count against its part", 10, 60, 70, 10, 3, true},
		{"but what it added since does", 10, 60, 71, 11, 3, false},
		{"exhausted, and the cost is unknown", 60, 40, 40, 0, 3, false},
		{"not exhausted, and the cost is unknown", 60, 30, 30, 0, 3, true},
		{"overspent", 200, 0, 1, 1, 3, false},
		{"what it gave back may be used again", 10, 60, 60, 30, 3, true},
	} {
		w := window{own: part{settled: amounts{tokens: c.own}}, others: part{settled: amounts{tokens: c.others}}, base: amounts{tokens: c.base}}
		if got := w.admits(b, amounts{tokens: c.ask}, c.replicas); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
