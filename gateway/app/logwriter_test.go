package app

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestALogThatNobodyReadsHoldsNobodyUp(t *testing.T) {
	a, w := io.Pipe() // blocks until read
	defer func() { _ = a.Close() }()
	reg := prometheus.NewRegistry()
	lines, stop := NewLogWriter(w, reg)
	written := make(chan struct{})
	go func() {
		defer close(written)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 4 * maxQueuedLog / len(line) {
			_, _ = lines.Write(line)
		}
		stop()
	}()
	select {
	case <-written:
	case <-time.After(20 * time.Second):
		t.Fatal("writing to a blocked log did not return")
	}
	if n := counter(t, reg, "foregate_log_lines_dropped_total"); n < 2*maxQueuedLog/1024 {
		t.Errorf("%v lines were dropped", n)
	}
}

// counter returns the value of a counter without labels.
func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestALineIsWrittenSoonAlthoughNoOtherFollows(t *testing.T) {
	a, w := io.Pipe()
	lines, stop := NewLogWriter(w, prometheus.NewRegistry())
	for range 2 { // also after a pause
		_, _ = lines.Write([]byte("a line\n"))
		if line, err := bufio.NewReader(a).ReadString('\n'); line != "a line\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	_ = a.Close()
	stop()
}

func TestTheLastLinesOfTheLogAreWritten(t *testing.T) {
	var out bytes.Buffer
	reg := prometheus.NewRegistry()
	lines, stop := NewLogWriter(&out, reg)
	for range 10 {
		_, _ = lines.Write([]byte("a line\n"))
	}
	stop()
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 10 {
		t.Errorf("%d of 10 lines", n)
	}
	if n, err := testutil.GatherAndCount(reg, "foregate_log_lines_dropped_total"); n != 1 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}

// shaky fails its first write.
type shaky struct {
	bytes.Buffer
	failed bool
}

func (s *shaky) Write(p []byte) (int, error) {
	if !s.failed {
		s.failed = true
		return 0, errors.New("no space left on device")
	}
	return s.Buffer.Write(p)
}

func TestALogThatFailedOnceIsWrittenAgainAndWhatWasLostIsCounted(t *testing.T) {
	var out shaky
	lost := 0
	q := newLineQueue(&out, func(n int) { lost += n })
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = q.Write([]byte(line))
	}
	if q.flush(); lost != 2 {
		t.Errorf("the first flush: %d lines lost, want 2", lost)
	}
	_, _ = q.Write([]byte("three\n"))
	if q.flush(); out.String() != "three\n" || lost != 2 {
		t.Errorf("the second flush: wrote %q, %d lines lost", out.String(), lost)
	}
}

func TestLinesOfManyWritersAreWrittenWhole(t *testing.T) {
	var out bytes.Buffer
	lines, stop := NewLogWriter(&out, prometheus.NewRegistry())
	var writers sync.WaitGroup
	for i := range 8 {
		line := bytes.Repeat([]byte{'a' + byte(i)}, 100)
		line[99] = '\n'
		writers.Go(func() {
			for range 1000 {
				_, _ = lines.Write(line)
			}
		})
	}
	writers.Wait()
	stop()
	n := 0
	for line := range bytes.Lines(out.Bytes()) {
		if n++; len(line) != 100 || bytes.Count(line, line[:1]) != 99 {
			t.Fatalf("%q", line)
		}
	}
	if n != 8000 {
		t.Errorf("%d lines", n)
	}
}
