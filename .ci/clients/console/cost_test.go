package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/clients/programs"
)

const (
	costTabs  = 20
	costSpan  = 20 * time.Second // of each measurement
	costTurns = 2                // with and without
	clockTick = 100              // USER_HZ: ticks a second in /proc/PID/stat, on Linux everywhere
)

// pageAsks is what a page asks again and again.
type pageAsks struct {
	path  string
	every time.Duration
}

// pagesAsk is what pages ask beside the stream that each has. A tab that is not seen asks nothing.
var pagesAsk = map[string][]pageAsks{
	"overview": {{"status", 5 * time.Second}},
	"backends": {{"backends", 2 * time.Second}, {"status", 2 * time.Second}},
	"settings": {{"settings", 4 * time.Second}, {"status", 4 * time.Second}, {"settings/log?n=50", 5 * time.Second}},
	"receipts": {{"receipts?n=200", 3 * time.Second}},
	"tenants":  {{"tenants", 3 * time.Second}},
}

// watch is a page: its stream, and what it asks, until ctx ends.
func (d *demoWorld) watch(ctx context.Context, page string) {
	var asking sync.WaitGroup
	asking.Go(func() { d.read(ctx, "/console/live") })
	for _, a := range pagesAsk[page] {
		asking.Go(func() {
			for tick := time.NewTicker(a.every); ; {
				d.read(ctx, "/admin/"+a.path)
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
			}
		})
	}
	asking.Wait()
}

// read reads an answer to its end, or until ctx ends.
func (d *demoWorld) read(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Admin+path, nil)
	if err != nil {
		d.t.Error(err)
		return
	}
	resp, err := (&http.Client{Transport: programs.Client.Transport}).Do(req)
	if err != nil {
		if ctx.Err() == nil {
			d.t.Error(err)
		}
		return
	}
	if resp.StatusCode != http.StatusOK {
		d.t.Errorf("%s: status %d", path, resp.StatusCode)
	}
	_, _ = bufio.NewReader(resp.Body).WriteTo(io.Discard) // a stream ends with ctx
	_ = resp.Body.Close()
}

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

// BenchmarkConsole tells what pages that are open cost a demonstration (two replicas in one process,
// with the metrics of half a minute of traffic): the work of its process in turns with and without
// them, as a share of a processor. A tenth of a percent is two ticks of the clock that tells it.
func BenchmarkConsole(b *testing.B) {
	for _, c := range []struct {
		name  string
		pages []string
	}{
		{"20Overviews", []string{"overview"}},
		{"20OfAllPages", []string{"overview", "backends", "settings", "receipts", "tenants"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := startDemo(b, "--no-traffic")
			for i := range 300 {
				d.send([]string{"low", "normal", "high"}[i%3])
			}
			for b.Loop() {
				var with, without float64
				for range costTurns {
					without += d.share() / costTurns
					ctx, cancel := context.WithCancel(b.Context())
					var tabs sync.WaitGroup
					for i := range costTabs {
						tabs.Go(func() { d.watch(ctx, c.pages[i%len(c.pages)]) })
					}
					with += d.share() / costTurns
					cancel()
					tabs.Wait()
				}
				b.ReportMetric(100*without, "%cpu_without")
				b.ReportMetric(100*with, "%cpu_with")
				b.ReportMetric(100*(with-without), "%cpu_added")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
