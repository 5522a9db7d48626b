package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestALogCountsLinesThatAreNoAccessRecords(t *testing.T) {
	var j Log
	for _, piece := range []string{
		`{"level":"info","code":200,"message":"request"}` + "\n", `{"level":"info","mess`, `age":"fleet: alone"}` + "\nplain words\n",
		`{"level":"warn","code":502,"message":"request","error":"gone"}` + "\n", "no end",
	} {
		if _, err := io.WriteString(&j, piece); err != nil {
			t.Fatal(err)
		}
	}
	if n := j.Count(); n != 2 {
		t.Errorf("%d lines counted, want 2", n)
	}
	if last := j.Last(2); !strings.Contains(last, "plain words") || !strings.Contains(last, "502") || strings.Contains(last, "alone") {
		t.Errorf("the last two lines are %q", last)
	}
}

func TestALogIsBounded(t *testing.T) {
	var j Log
	for i := range 10 * maxLines {
		fmt.Fprintf(&j, "line %d\n", i)
	}
	if _, err := j.Write([]byte(strings.Repeat("x", 1<<20))); err != nil {
		t.Fatal(err)
	}
	if len(j.lines) > maxLines || len(j.rest) > 16*maxLineBytes {
		t.Errorf("%d lines and %d bytes are kept", len(j.lines), len(j.rest))
	}
}

func TestPollTellsWhyItGaveUp(t *testing.T) {
	never := func() bool { return false }
	if err := Poll(t.Context(), time.Millisecond, never); !errors.Is(err, ErrNotInTime) {
		t.Errorf("after its limit: %v", err)
	}
	why := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := Poll(ctx, time.Minute, never); !errors.Is(err, why) {
		t.Errorf("after the context's end: %v", err)
	}
}

func TestASignalToAChildThatHasEndedIsAnErrorThatNamesIt(t *testing.T) {
	p, err := Start(Command{Name: "short", Path: "/bin/sh", Args: []string{"-c", "exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited
	if err := p.Freeze(); !errors.Is(err, os.ErrProcessDone) || !strings.HasPrefix(err.Error(), "short: ") {
		t.Errorf("got %v", err)
	}
	if err := p.Died(); !strings.HasPrefix(err.Error(), "short ended by itself: exit status 3") {
		t.Errorf("it says of its end: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stopping it: %v", err)
	}
}

func TestASumIsOfTheSeriesWhoseLabelsHoldAllWords(t *testing.T) {
	const page = "# HELP a_b_total of a\na_b_total{pool=\"x\",kind=\"y\"} 2\na_b_total{pool=\"x\"} 3\na_b_total_more 5\na_b_total 7\nwrong{pool=\"x\"} -\nwrong 1\n"
	for _, c := range []struct {
		name  string
		words []string
		want  float64
		fails string
	}{
		{"a_b_total", nil, 12, ""}, {"a_b_total", []string{`pool="x"`}, 5, ""}, {"a_b_total", []string{`pool="x"`, `kind="y"`}, 2, ""},
		{"a_b", nil, 0, "no such metric"}, {"wrong", nil, 1, `wrong{pool="x"} -`},
	} {
		sum, err := Sum(page, c.name, c.words...)
		if sum != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s %q: %g, %v", c.name, c.words, sum, err)
		}
	}
}
