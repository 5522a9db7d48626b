package cost

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// row compares a load at the gateway with one at the yardstick.
type row struct {
	title, unit string
	own, yard   string  // titles of workloads
	aim         float64 // the highest ratio that is hoped for; 0 is none
}

// rows are the comparisons, those with an aim (issue 2) first.
var rows = []row{
	{"pass-through, 1 KiB body", "request", "embeddings 1 KiB", "embeddings 1 KiB", 1.3},
	{"pass-through, 16 KiB body", "request", "embeddings 16 KiB", "embeddings 16 KiB", 1.3},
	{"`X-Tier: target` chat, 1 KiB body", "request", "target JSON 1 KiB", "target JSON 1 KiB", 1.5},
	{"`X-Tier: target` chat, 16 KiB body", "request", "target JSON 16 KiB", "target JSON 16 KiB", 1.5},
	{"judged stream", "token", "judged paced", "relay paced", 2},
	{"judged stream / proxy carrying the same logprobs", "token", "judged paced", "laden paced", 0},
	{"relayed stream", "token", "relay paced", "relay paced", 0},
	{"judged stream, upstream sends at once", "token", "judged at once", "relay at once", 0},
	{"judged at once / proxy carrying the same logprobs", "token", "judged at once", "laden at once", 0},
	{"relayed stream, upstream sends at once", "token", "relay at once", "relay at once", 0},
}

// report prints the table and hands the ratios to the benchmark.
func (c *cost) report(b *testing.B) {
	b.Helper()
	var t strings.Builder
	fmt.Fprintf(&t, "\n### What the gateway costs, beside a bare reverse proxy\n\n"+
		"Medians of %d interleaved rounds, %d connections, GOMAXPROCS=%d for proxy and gateway, %d CPUs, %s %s/%s; streams of %d tokens, paced ones with %v between tokens; %s in all.\n\n",
		c.rounds, connections, proxyProcs, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, c.tokens, c.pause, time.Since(c.began).Round(time.Second))
	t.WriteString("| CPU time | × proxy | lowest–highest | µs, Foregate | µs, proxy | allocations, Foregate | proxy | aim | met |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range rows {
		c.costRow(&t, b, r)
	}
	t.WriteString("\n| added latency, µs | p50, Foregate | p50, proxy | p99, Foregate | p99, proxy |\n|---|--:|--:|--:|--:|\n")
	for _, d := range c.delays {
		y50, y99 := d.added(1)
		o50, o99 := d.added(2)
		fmt.Fprintf(&t, "| %s | %.0f | %.0f | %.0f | %.0f |\n", d.title, o50, y50, o99, y99)
	}
	t.WriteString("\n| resident memory, MiB | idle | most |\n|---|--:|--:|\n")
	for _, p := range []*party{c.own, c.yard} {
		name := "Foregate"
		if p == c.yard {
			name = "proxy"
		}
		fmt.Fprintf(&t, "| %s | %.0f | %.0f |\n", name, p.idleRSS, p.memory(b, "VmHWM"))
	}
	fmt.Println(t.String())
	b.ReportMetric(0, "ns/op") // it would be the length of the run
}

func (c *cost) costRow(t *strings.Builder, b *testing.B, r row) {
	own, yard := c.ownCost[r.own], c.yardCost[r.yard]
	var ratios, ours, theirs, objects, theirObjects []float64
	for i := range own {
		ratios = append(ratios, own[i].cpu/yard[i].cpu)
		ours, theirs = append(ours, own[i].cpu), append(theirs, yard[i].cpu)
		objects, theirObjects = append(objects, own[i].mallocs), append(theirObjects, yard[i].mallocs)
	}
	ratio := quantile(ratios, 0.5)
	aim, met := "", ""
	if r.aim > 0 {
		aim, met = fmt.Sprintf("≤ %.1f", r.aim), "yes"
		if ratio > r.aim {
			met = "no"
		}
	}
	fmt.Fprintf(t, "| %s, per %s | **%.2f** | %.2f–%.2f | %.1f | %.1f | %.1f | %.1f | %s | %s |\n",
		r.title, r.unit, ratio, slices.Min(ratios), slices.Max(ratios),
		quantile(ours, 0.5), quantile(theirs, 0.5), quantile(objects, 0.5), quantile(theirObjects, 0.5), aim, met)
	b.ReportMetric(ratio, strings.NewReplacer(" ", "-", "`", "", ",", "", ":", "", "/", "over").Replace(r.title)+"-x")
}
