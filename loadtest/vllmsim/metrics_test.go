package vllmsim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// sample is the value of one series of a page, -1 when it is not there.
func sample(t *testing.T, page, series string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return -1
}

// What a step left is what an idle server shows, however long ago that was.
func TestGaugesGoStaleWhileNothingHappens(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Model: "m", Fault: Fault{Slow: 1e6}})
	running := begin(s, fmt.Sprintf(endless, false))
	eventually(t, "it runs", func() bool { return s.State().Running == 1 })
	_, page := do(t, s, "GET", "/metrics", "") // the first step has not ended
	expect(t, "running", sample(t, page, `vllm:num_requests_running{engine="0",model_name="m"}`), 0.0)
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", ended(t, running).status, 200)
}
