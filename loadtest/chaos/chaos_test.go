package chaos

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func ids(rows []Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestAnIDNamesARowAndItsVariants(t *testing.T) {
	rows, err := Choose(&Options{Only: []string{"r4", "R15"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids(rows) {
		if !strings.HasPrefix(id, "R4") && id != "R15" || len(id) > 3 {
			t.Errorf("R4 and R15 name %s", id)
		}
	}
	if !slices.Contains(ids(rows), "R4a") || !slices.Contains(ids(rows), "R15") {
		t.Errorf("R4 and R15 are %v", ids(rows))
	}
	if _, err := Choose(&Options{Only: []string{"R4", "nonsense"}}); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("a row that there is not: %v", err)
	}
}

func TestThePartsOfTheRowsAreAllOfThem(t *testing.T) {
	whole, _ := Choose(&Options{Short: true})
	seen := map[string]int{}
	for part := range 3 {
		rows, err := Choose(&Options{Short: true, Part: part + 1, Parts: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen[r.ID]++
		}
		if len(rows) < len(whole)/3 || len(rows) > len(whole)/3+1 {
			t.Errorf("part %d runs %d of %d rows", part+1, len(rows), len(whole))
		}
	}
	for _, r := range whole {
		if seen[r.ID] != 1 {
			t.Errorf("%s is in %d parts", r.ID, seen[r.ID])
		}
	}
}

func TestAddedLatencyIsBeyondTheMedianBeforeOfTheSameKind(t *testing.T) {
	var before, during []Outcome
	for i := range 11 {
		before = append(before, Outcome{Kind: Answered, Stream: true, First: time.Duration(i) * time.Millisecond})
		before = append(before, Outcome{Kind: Answered, First: 100 * time.Millisecond})
		during = append(during, Outcome{Kind: Answered, Stream: true, First: time.Duration(i+3) * time.Millisecond})
		during = append(during, Outcome{Kind: Answered, First: 101 * time.Millisecond})
	}
	during = append(during, Outcome{Kind: TimedOut, First: time.Hour})
	got := addedLatency(before, during)
	if got.worst != 8*time.Millisecond || got.noise != 5*time.Millisecond {
		t.Errorf("added %v with a noise of %v, want 8ms and 5ms", got.worst, got.noise)
	}
}

func TestWhatTheCascadeTookIsTakenOffTheFirstByte(t *testing.T) {
	told := func(timing string, first time.Duration) Outcome {
		return Outcome{Kind: Answered, Stream: true, First: first, Header: http.Header{"Server-Timing": {timing}}}
	}
	got := fronts([]Outcome{
		told("draft;dur=4.0, total;dur=5.5", 7*time.Millisecond), told("total;dur=1.0", 2*time.Millisecond), told("draft;dur=4.0", time.Second),
		told("total;dur=9.0", time.Millisecond), {Kind: TimedOut, Stream: true, First: time.Hour}, {Kind: Answered, Stream: true},
	})
	if want := []time.Duration{0, time.Millisecond, 1500 * time.Microsecond}; !slices.Equal(got, want) {
		t.Errorf("outside the cascade: %v, want %v", got, want)
	}
	if p99, none := at(got, 99), at(nil, 99); p99 != 1500*time.Microsecond || none != 0 {
		t.Errorf("the percentiles are %v and %v", p99, none)
	}
}

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
