package usage

import (
	"fmt"
	"testing"
)

func TestTooManyTenantsShareARowPerRoute(t *testing.T) {
	m := meterAt(Options{}, noon)
	for i := range 3 * maxRows {
		m.Add(noon, fmt.Sprint("tenant-", i), fmt.Sprint("route-", i%2), &Counts{Requests: 1})
	}
	r := reportOf(t, m, "tenant,route")
	if len(r.Rows) != maxRows+2 || r.Total.Requests != 3*maxRows {
		t.Fatalf("%d rows, %d requests", len(r.Rows), r.Total.Requests)
	}
	for _, row := range r.Rows[:2] {
		if row.Tenant != Others || row.Requests != maxRows {
			t.Errorf("%+v", row)
		}
	}
}

func TestAllDaysTogetherAreBoundedAndOldOnesAreForgotten(t *testing.T) {
	var l ledger
	for day := range Day(2 * MaxDays) {
		for i := range 100 {
			l.add(day, fmt.Sprint(i), "r", &Counts{Requests: 1})
		}
		if len(l.books) > MaxDays || l.held > maxHeldRows+MaxDays {
			t.Fatalf("on day %d: %d days, %d rows", day, len(l.books), l.held)
		}
	}
	rows := 0
	for _, b := range l.books {
		rows += len(b.rows)
	}
	if rows != l.held {
		t.Errorf("%d rows, counted as %d", rows, l.held)
	}
}

// TestALateRequestOfASettledDayCountsThoughItsFirstSettlementFails begins a day again that Redis has settled under a number.
func TestALateRequestOfASettledDayCountsThoughItsFirstSettlementFails(t *testing.T) {
	var l ledger
	l.add(7, "acme", "chat", &Counts{Requests: 1})
	first := l.settlement(7)
	if done, _ := l.written(7, first, outcome{status: 1}); !done || !l.forget(7) {
		t.Fatal("the day was not settled")
	}
	l.add(7, "acme", "chat", &Counts{Requests: 1})
	late := l.settlement(7)
	l.failed(7, late) // it was never sent
	answer := outcome{status: 1, before: first.number}
	if late.number <= first.number {
		answer.status = 0 // as the script answers
	}
	if _, _ = l.written(7, l.settlement(7), answer); answer.status != 1 || l.pending() != 0 {
		t.Errorf("number %d after %d: the late request is not in Redis", late.number, first.number)
	}
}
