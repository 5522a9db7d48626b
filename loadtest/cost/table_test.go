package cost

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// lines is a table: Markdown, aligned for those who read it as it is.
type lines [][]string

func (l lines) String() string {
	widths := make([]int, len(l[0]))
	for _, line := range l {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	rule := []string{strings.Repeat("-", widths[0])}
	for _, w := range widths[1:] {
		rule = append(rule, strings.Repeat("-", w-1)+":")
	}
	var out strings.Builder
	for _, line := range slices.Insert(slices.Clone(l), 1, rule) {
		fmt.Fprintf(&out, "| %-*s |", widths[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(&out, " %*s |", widths[i+1], cell)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// verdict is how a goal is written, and whether it is met.
func verdict(value, goal float64) (written, met string) {
	switch {
	case goal == 0:
		return "", ""
	case value <= goal:
		return fmt.Sprintf("≤ %.4g", goal), "met"
	}
	return fmt.Sprintf("≤ %.4g", goal), "missed"
}

// header says how the tables came about.
func (c *cost) header(began time.Time) {
	fmt.Printf("\nWhat the gateway costs. The yardstick is Go's httputil.ReverseProxy with a tuned transport. Medians of %d interleaved rounds, %d connections, "+
		"each process alone on one core, all default features on, a real Redis; paced streams have %d tokens, one every %v. %d CPUs, %s %s/%s, %s.\n",
		c.rounds, connections, streamTokens, streamPause, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Since(began).Round(time.Second))
	if !c.has(nginx) {
		fmt.Println("nginx is not installed: its rows are left out.")
	}
}

// result is a row with its values.
type result struct {
	row
	ratio, low, high float64
	own, beside      sample
}

// results are the rows' medians over the rounds.
func (c *cost) results() []result {
	var list []result
	for _, g := range c.groups {
		for _, r := range g.rows {
			own, beside := c.samples[r.own], c.samples[r.beside]
			var ratios []float64
			for i := range own {
				ratios = append(ratios, own[i].cpu/beside[i].cpu)
			}
			list = append(list, result{row: r, ratio: quantile(ratios, 0.5), low: slices.Min(ratios), high: slices.Max(ratios), own: median(own), beside: median(beside)})
		}
	}
	return list
}

func median(list []sample) sample {
	var cpu, mallocs []float64
	for _, s := range list {
		cpu, mallocs = append(cpu, s.cpu), append(mallocs, s.mallocs)
	}
	return sample{quantile(cpu, 0.5), quantile(mallocs, 0.5)}
}

// maxMallocs is the goal for allocations of a straight answer.
const maxMallocs = 60

// table prints the CPU time and the allocations of each row.
func (c *cost) table() {
	t := lines{{"CPU time", "ratio", "goal", "", "rounds", "committed", "µs", "beside", "allocations", "beside"}}
	for _, r := range c.results() {
		goal, met := verdict(r.ratio, r.goal)
		t = append(t, []string{
			r.title, fmt.Sprintf("%.2f", r.ratio), goal, met, fmt.Sprintf("%.2f–%.2f", r.low, r.high), c.committed[r.title].String(),
			fmt.Sprintf("%.1f", r.own.cpu), fmt.Sprintf("%.1f", r.beside.cpu), objects(r.own.mallocs), objects(r.beside.mallocs),
		})
	}
	fmt.Println("\n" + t.String())
	if list := c.samples["default, 1 KiB"]; len(list) > 0 {
		got := median(list).mallocs
		goal, met := verdict(got, maxMallocs)
		fmt.Printf("Allocations of a straight answer (a miss, 1 KiB): %.0f, goal %s, %s.\n", got, goal, met)
	}
}

// objects writes a number of allocations; nginx has none.
func objects(n float64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", n)
}

// delayTable prints what the processes add to the time that a client waits for the engine itself, and what the gateway adds to
// the yardstick's.
func (c *cost) delayTable() {
	t := lines{{"added latency, µs", "over the yardstick", "goal", "", "p50", "p99", "yardstick p50", "p99", "nginx p50", "p99"}}
	for _, d := range c.delays {
		over, _ := d.added(1, 2)
		goal, met := verdict(over, d.goal)
		line := []string{d.title, fmt.Sprintf("%.0f", over), goal, met, "", "", "", "", "", ""}
		for i := 1; i < len(d.steps); i++ {
			p50, p99 := d.added(i, 0)
			line[2+2*i], line[3+2*i] = fmt.Sprintf("%.0f", p50), fmt.Sprintf("%.0f", p99)
		}
		t = append(t, line)
	}
	fmt.Println("\n" + t.String())
}

// memoryTable prints resident memory.
func (c *cost) memoryTable(b *testing.B) []Memory {
	b.Helper()
	t, list := lines{{"resident memory, MiB", "", "goal", ""}}, c.memories(b)
	for _, m := range list {
		goal, met := verdict(m.MiB, m.Goal)
		t = append(t, []string{m.Title, fmt.Sprintf("%.0f", m.MiB), goal, met})
	}
	fmt.Println("\n" + t.String())
	return list
}

// report are the rows for programs.
func (c *cost) report() *Report {
	r := &Report{Rounds: c.rounds}
	cpu := func(list []sample) (out []float64) {
		for _, s := range list {
			out = append(out, s.cpu)
		}
		return out
	}
	for _, g := range c.groups {
		for _, x := range g.rows {
			r.Rows = append(r.Rows, Row{Title: x.title, Goal: x.goal, Own: cpu(c.samples[x.own]), Beside: cpu(c.samples[x.beside])})
		}
	}
	return r
}

// delayReport are the latencies for programs.
func (c *cost) delayReport() (out []Delay) {
	for _, d := range c.delays {
		over, _ := d.added(1, 2)
		own, _ := d.added(1, 0)
		out = append(out, Delay{Title: d.title, Goal: d.goal, OverYardstick: over, Gateway: own})
	}
	return out
}
