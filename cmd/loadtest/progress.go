package main

import (
	"fmt"
	"io"
	"time"

	"github.com/foregate/foregate/loadtest/live"
)

// lineEvery is how often progress is told.
const lineEvery = 10 * time.Second

// meter shows how far a run is, by a line now and then. One goroutine at a time uses it.
type meter struct {
	w    io.Writer
	next time.Time // of the next line
}

func newMeter(w io.Writer) *meter { return &meter{w: w, next: time.Now().Add(lineEvery)} }

// show is told of progress.
func (m *meter) show(p live.Progress) {
	if !p.Done && time.Now().After(m.next) {
		m.next = time.Now().Add(lineEvery)
		_, _ = fmt.Fprintln(m.w, progressLine(p)) // nobody to tell
	}
}

// progressLine is what there is to see, in one line.
func progressLine(p live.Progress) string {
	share := 0
	if p.Duration > 0 {
		share = min(100, int(100*p.At/p.Duration))
	}
	line := fmt.Sprintf("%s: %3d %%  %v of %v  %d sent, %d under way, %d answered", p.Case, share,
		p.At.Truncate(time.Second), p.Duration, p.Sent, p.InFlight, p.Answered)
	if p.Shed > 0 {
		line += fmt.Sprintf(", %d shed", p.Shed)
	}
	if p.Failed > 0 {
		line += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Lag >= 100*time.Millisecond {
		line += fmt.Sprintf(", %v behind", p.Lag.Truncate(10*time.Millisecond))
	}
	return line
}
