package chaos

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/process"
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

func TestTheShortFormIsAPartOfTheWhole(t *testing.T) {
	whole, _ := Choose(&Options{})
	short, _ := Choose(&Options{Short: true})
	if len(short) == 0 || len(short) >= len(whole) {
		t.Errorf("%d of %d rows are short", len(short), len(whole))
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

func TestAMetricsPageIsReadByNameAndLabels(t *testing.T) {
	m := Metrics(`# HELP go_goroutines Number.
go_goroutines 31
foregate_redis_mode{mode="local"} 0
foregate_redis_mode{mode="shared"} 1
foregate_shed_total{pool="a",priority="low"} 2
foregate_shed_total{pool="b",priority="low"} 3
foregate_shed_total{pool="b",priority="high"} 10
foregate_shed_total_created 99
`)
	if got := m.Mode(); got != "shared" {
		t.Errorf("the mode is %q", got)
	}
	if v, ok := m.Value("go_goroutines"); !ok || v != 31 {
		t.Errorf("go_goroutines is %v, %v", v, ok)
	}
	if _, ok := m.Value("go_goroutine"); ok {
		t.Error("a name's beginning is a name")
	}
	if got := m.Sum("foregate_shed_total", `priority="low"`); got != 5 {
		t.Errorf("the sum is %v, want 5", got)
	}
	if got := m.Sum("foregate_shed_total"); got != 15 {
		t.Errorf("the sum of all is %v, want 15", got)
	}
}

func TestATableLineStaysOneLine(t *testing.T) {
	var b strings.Builder
	r := Row{ID: "X1", Fault: "a | b", Promise: "none"}
	s := Result{Sent: 3, Answered: 1, Errors: map[string]int{Shed: 1, Limited: 1}, AddedWorst: 1234567, Failures: []string{"two\nlines"}}
	if err := line(&b, &r, &s); err != nil {
		t.Fatal(err)
	}
	want := "| X1 | a \\| b | none | 3 | 1 | 1 limited, 1 shed | – / – / 1.2ms | – |  | **BROKEN**: two lines |\n"
	if b.String() != want {
		t.Errorf("the line is\n%swant\n%s", b.String(), want)
	}
}

func TestAFrozenServerSaysNothingAndGoesOnAfterwards(t *testing.T) {
	s, err := NewServer(t.Context(), t.TempDir(), "redis")
	if errors.Is(err, errNoRedis) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Client.Ping(ctx).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := process.Poll(t.Context(), patience, func() bool { return s.answers(t.Context()) }); err != nil {
		t.Errorf("a server that was thawed: %v", err)
	}
}
