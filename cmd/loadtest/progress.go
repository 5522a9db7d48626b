package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/foregate/foregate/loadtest/live"
)

// lineEvery is how often progress is told where there is no terminal.
const lineEvery = 10 * time.Second

// meter shows how far a run is: one line redrawn on a terminal, a line now and
// then elsewhere. One goroutine at a time uses it.
type meter struct {
	w        io.Writer
	terminal bool
	next     time.Time // of the next line
	drawn    bool
}

func newMeter(w io.Writer) *meter {
	m := &meter{w: w, next: time.Now().Add(lineEvery)}
	if f, ok := w.(*os.File); ok {
		st, err := f.Stat()
		m.terminal = err == nil && st.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return m
}

// show is told of progress.
func (m *meter) show(p live.Progress) {
	switch {
	case m.terminal && p.Done:
		m.clear()
	case m.terminal:
		_, _ = fmt.Fprintf(m.w, "\r\x1b[K%s", progressLine(p)) // nobody to tell
		m.drawn = true
	case !p.Done && time.Now().After(m.next):
		m.next = time.Now().Add(lineEvery)
		_, _ = fmt.Fprintln(m.w, progressLine(p)) // as above
	}
}

// say shows a line of words instead.
func (m *meter) say(text string) {
	if m.terminal {
		_, _ = fmt.Fprintf(m.w, "\r\x1b[K%s", text) // nobody to tell
		m.drawn = true
		return
	}
	_, _ = fmt.Fprintln(m.w, text) // as above
}

// clear takes the line away, for other words.
func (m *meter) clear() {
	if m.drawn {
		_, _ = fmt.Fprint(m.w, "\r\x1b[K") // as above
		m.drawn = false
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
