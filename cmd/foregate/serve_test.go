package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestALogThatNobodyReadsHoldsNobodyUp(t *testing.T) {
	r, w := io.Pipe() // blocks until read
	defer func() { _ = r.Close() }()
	reg := prometheus.NewRegistry()
	lines, stop := openLog(w, reg)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 4 * logLines {
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
	lines, stop := openLog(&out, reg)
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
