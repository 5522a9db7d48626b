package process

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
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
		sum, err := Metrics(page).Total(c.name, c.words...)
		if sum != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s %q: %g, %v", c.name, c.words, sum, err)
		}
	}
}
