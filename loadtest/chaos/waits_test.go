package chaos

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestStreamsAreHeldToTheBudgetOfARequestAndWhatTheMachineAdds(t *testing.T) {
	front := func(times ...int) (out []Outcome) {
		for _, ms := range times {
			out = append(out, Outcome{Kind: Answered, Stream: true, First: time.Duration(ms+5) * time.Millisecond, Header: http.Header{"Server-Timing": {"total;dur=5.0"}}})
		}
		return out
	}
	before := front(1, 2, 2, 2, 4)
	for ms, kept := range map[int]bool{2: true, 17: true, 20: true, 21: false, 33: false} {
		added, bound := waited(before, front(2, 2, ms), time.Millisecond)
		if added != time.Duration(ms-2)*time.Millisecond || bound != 18*time.Millisecond || (added <= bound) != kept {
			t.Errorf("%d ms outside the cascade: added %v, bound %v", ms, added, bound)
		}
	}
}

func TestWaitsOfABudgetAreReadFromReceipts(t *testing.T) {
	got, err := budgetWaits(`{"id":"a","ms":{"limits":0.5,"cache":15.1}}
{"id":"b","ms":{"limits":0.5,"cache":0.4}}
{"id":"c","ms":{"limits":15.5,"cache":15.5}}
`)
	if want := []time.Duration{15600 * time.Microsecond, 31 * time.Millisecond}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := budgetWaits("nonsense\n"); err == nil {
		t.Error("nonsense is read")
	}
}
