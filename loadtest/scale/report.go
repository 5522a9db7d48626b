package scale

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Text is the report as Markdown tables, which terminals show as well.
func (r *Report) Text() string {
	var b strings.Builder
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line := func(n int) { b.WriteString(strings.Repeat("|---", n) + "|\n") }
	cost := func(name string, c Cost) {
		row(name, number(c.Commands), number(c.Scripts), number(c.In), number(c.Out), number(c.Busy*1e6), number(c.Exec*1e6))
	}
	row("what one of each costs Redis, a second", "commands", "scripts", "bytes in", "bytes out", "CPU µs", "in scripts µs")
	line(7)
	m := &r.Model
	cost("replica", m.Replica)
	cost("replica and pool", m.ReplicaPool)
	cost("replica and backend", m.ReplicaBackend)
	cost("backend", m.Backend)
	cost("request, without limits and cache", m.Request)
	cost("limits of a request", m.Limit)
	cost("cache of a request (a miss that is kept)", m.Cache)
	cost("the same, for each replica that is told", m.CacheReplica)

	f := r.Check.Fleet
	fmt.Fprintf(&b, "\nCompared with %s:\n\n", f)
	row("", "commands", "scripts", "bytes in", "bytes out", "CPU µs", "in scripts µs")
	line(7)
	cost("predicted", r.Check.Predicted)
	cost("measured", r.Check.Measured)

	fmt.Fprintf(&b, "\nIt took %.2f of the CPU time that was predicted.\n\n", r.Check.Share())
	row("change, until all "+strconv.Itoa(f.Replicas)+" replicas know", "rounds", "median s", "worst s")
	line(4)
	for _, c := range r.Failures {
		row(c.Change, strconv.Itoa(c.Rounds), fmt.Sprintf("%.2f", c.Median), fmt.Sprintf("%.2f", c.Worst))
	}

	fmt.Fprintf(&b, "\nScrapes every %g s, %d bytes a page. With limits every request is of a tenant that has one; with the cache every answer is kept and none is found.\n\n", r.Scrape.Interval, r.Scrape.Bytes)
	share := r.Check.Share()
	cores := func(c Cost) string { return fmt.Sprintf("%.2f–%.2f", min(share, 1)*c.Busy, max(share, 1)*c.Busy) }
	row("replicas", "pools", "backends", "requests/s", "with", "commands/s", "MB/s in", "MB/s out", "cores: fleet", "limits", "answers",
		"scrapes/s", "MB/s scraped", "carried by", "at worst")
	line(15)
	for _, c := range r.Forecasts {
		f := c.Fleet
		row(strconv.Itoa(f.Replicas), strconv.Itoa(f.Pools), strconv.Itoa(f.Backends), number(f.Requests), with(f), count(c.Total.Commands),
			fmt.Sprintf("%.2f", c.Total.In/1e6), fmt.Sprintf("%.2f", c.Total.Out/1e6), cores(c.Parts.Control), cores(c.Parts.Limits), cores(c.Parts.Answers),
			number(c.Scrapes), fmt.Sprintf("%.1f", c.Scraped/1e6), c.ByCheck, c.ByFits)
	}
	b.WriteString("\nIn these proportions, with limits and cache:\n\n")
	row("carried by", "up to")
	line(2)
	for _, e := range r.Ends {
		row(e.Topology, e.Fleet.String())
	}
	return b.String()
}

// with says what requests use.
func with(f Fleet) string {
	switch {
	case f.Limited && f.Cached:
		return "limits, cache"
	case f.Limited:
		return "limits"
	case f.Cached:
		return "cache"
	}
	return "neither"
}

// String says how large a fleet is.
func (f Fleet) String() string {
	return fmt.Sprintf("%d replicas, %d pools, %d backends, %s requests/s", f.Replicas, f.Pools, f.Backends, number(f.Requests))
}

// number formats a number with three significant digits below 1,000.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
