package app

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// droppedLines asserts that a registry counts lines that were dropped: within 20 seconds, at least so many.
func droppedLines(t *testing.T, reg *prometheus.Registry, atLeast float64) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		switch n := families[0].GetMetric()[0].GetCounter().GetValue(); {
		case n >= atLeast:
			return
		case time.Now().After(deadline):
			t.Fatalf("%v lines were dropped, want %v", n, atLeast)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestALogThatNobodyReadsHoldsNobodyUpAndCountsWhatIsLost(t *testing.T) {
	a, w := io.Pipe() // blocks until read
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
	go func() { _, _ = io.Copy(io.Discard, a) }()
	droppedLines(t, reg, 2*maxQueuedLines)
	_ = a.Close()
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
	reg := prometheus.NewRegistry()
	lines, stop := NewLogWriter(&out, reg)
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = lines.Write([]byte(line))
	}
	stop()
	droppedLines(t, reg, 1)
	if out.String() != "two\n" {
		t.Errorf("wrote %q", out.String())
	}
}
