package app

import (
	"bytes"
	"errors"
	"io"
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
		for range 4 * maxQueuedLines {
			_, _ = lines.Write([]byte("a line\n"))
		}
		stop()
	}()
	select {
	case <-written:
	case <-time.After(20 * time.Second):
		t.Fatal("writing to a blocked log did not return")
	}
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
	b := newLineBuffer(&out, func(n int) { lost += n })
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = b.Write([]byte(line))
	}
	if err := b.Close(); err == nil || lost != 2 {
		t.Errorf("the first flush: %v, %d lines lost, want 2", err, lost)
	}
	_, _ = b.Write([]byte("three\n"))
	if err := b.Close(); err != nil || out.String() != "three\n" || lost != 2 {
		t.Errorf("the second flush: %v, wrote %q, %d lines lost", err, out.String(), lost)
	}
}

func TestALineThatFillsTheBufferOnlyLosesWhatCameBeforeIt(t *testing.T) {
	var out shaky
	lost := 0
	b := newLineBuffer(&out, func(n int) { lost += n })
	long := bytes.Repeat([]byte("x"), logBufferBytes-1)
	_, _ = b.Write([]byte("one\n"))
	_, err := b.Write(long)
	if err != nil || lost != 1 {
		t.Errorf("%v, %d lines lost, want 1", err, lost)
	}
	if err := b.Close(); err != nil || !bytes.Equal(out.Bytes(), long) {
		t.Errorf("%v, wrote %d bytes", err, out.Len())
	}
}
