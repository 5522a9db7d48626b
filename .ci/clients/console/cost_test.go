package console

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	costSpan  = 20 * time.Second // of each measurement
	clockTick = 100              // USER_HZ: ticks a second in /proc/PID/stat, on Linux everywhere
)

// worked is how long the demonstration's process has worked, on all processors.
func (d *demoWorld) worked() time.Duration {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.PID))
	if err != nil {
		d.t.Skip("there is no /proc to read a process's work from")
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / clockTick
}

// share is how much of a processor the process works in costSpan.
func (d *demoWorld) share() float64 {
	before := d.worked()
	<-time.After(costSpan)
	return float64(d.worked()-before) / float64(costSpan)
}
