package probe_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/probe"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/engines.md")

// The generated part of docs/engines.md stands between these.
const (
	page  = "../../docs/engines.md"
	begin = "<!-- made by go test ./tiers/probe -run Conformance -update -->\n"
	end   = "<!-- end of the made part -->"
)

// TestTheConformanceTableIsWhatTheProbeFinds runs the real prober against each engine's wire in the simulator, and against
// each of its hazards.
func TestTheConformanceTableIsWhatTheProbeFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	runs := probeAll(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no generated part", page)
	}
	now := tables(runs)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+now+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != now {
		t.Errorf("%s is not what the probe finds; run with -update. Found:\n%s", page, now)
	}
}

// conformed is one engine, with a hazard or none, as the prober has found it.
type conformed struct {
	engine, hazard string
	url            string
	found          *probe.Capabilities
	failed         string
}

// name is the name of its pool.
func (c *conformed) name() string { return strings.TrimSuffix(c.engine+"-"+c.hazard, "-") }

// probeAll starts every engine with every hazard and waits until the prober knows them.
func probeAll(t *testing.T) []*conformed {
	t.Helper()
	var runs []*conformed
	var pools []probe.Pool
	for _, engine := range vllmsim.Engines() {
		for _, hazard := range append([]string{""}, vllmsim.HazardNames()...) {
			c := &conformed{engine: engine, hazard: hazard}
			o := vllmsim.Options{Engine: engine, Model: "sim:1b", Seed: 14, Profile: "h100-8b", TimeScale: 100, MaxModelLen: 3200}
			if hazard != "" {
				o.Hazards = []string{hazard}
			}
			c.url = vllmsim.Start(t, o).URL()
			pools = append(pools, probe.Pool{Name: c.name(), Model: "sim:1b", Backends: func() []probe.Backend {
				return []probe.Backend{{ID: "b", URL: c.url, Engine: dialect.Kind(engine), Up: true}}
			}})
			runs = append(runs, c)
		}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p, err := probe.New(probe.Options{Pools: pools, Transport: transport, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	// Each one's first result counts: a probe that saw no end is repeated after ten seconds, with another question.
	wait(t, "all are probed", func() bool {
		all := true
		for _, c := range runs {
			if c.found == nil && c.failed == "" {
				c.found, c.failed = p.Capabilities(c.name()), p.Failed(c.name())
			}
			all = all && (c.found != nil || c.failed != "")
		}
		return all
	})
	return runs
}

// wait waits until ok holds, at most a minute.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("still waiting until %s", what)
		case <-tick.C:
		}
	}
}

// cell is what the table says of a capability.
func (c *conformed) cell(capability string) string {
	switch why := c.found.MissingReason(capability); {
	case c.found == nil:
		return "not probed"
	case capability == probe.MissingScoring && why != "":
		return "no: judge"
	case why != "":
		return "no"
	}
	return "yes"
}

// tables are the generated part of the page.
func tables(runs []*conformed) string {
	var b strings.Builder
	run := func(engine, hazard string) *conformed {
		return runs[slices.IndexFunc(runs, func(c *conformed) bool { return c.engine == engine && c.hazard == hazard })]
	}
	table := func(what string, names []string, cell func(engine, name string) string) {
		b.WriteString("\n| " + what + " | " + strings.Join(vllmsim.Engines(), " | ") + " |\n|---|" + strings.Repeat("---|", len(vllmsim.Engines())) + "\n")
		for _, name := range names {
			b.WriteString("| `" + name + "` |")
			for _, engine := range vllmsim.Engines() {
				b.WriteString(" " + cell(engine, name) + " |")
			}
			b.WriteString("\n")
		}
	}
	table("capability", probe.CapabilityNames, func(engine, name string) string { return run(engine, "").cell(name) })
	b.WriteString("\n## Hazards\n")
	table("hazard", vllmsim.HazardNames(), func(engine, name string) string { return run(engine, name).noticed(run(engine, "")) })
	b.WriteString("\n## Why not\n")
	for _, engine := range vllmsim.Engines() {
		b.WriteString("\n### " + engine + "\n\n| capability | reason |\n|---|---|\n")
		for _, m := range run(engine, "").found.Missing {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, inCell(m.Reason))
		}
		for _, hazard := range vllmsim.HazardNames() {
			if why := run(engine, hazard).found.HazardReason(hazard); why != "" {
				fmt.Fprintf(&b, "| `%s` (hazard) | %s |\n", hazard, inCell(why))
			}
		}
	}
	return b.String()
}

// noticed is what the probe finds of a hazard, and what it then does without.
func (c *conformed) noticed(clean *conformed) string {
	if c.found == nil {
		return "not probed: " + inCell(c.failed)
	}
	var without []string
	for _, capability := range probe.CapabilityNames {
		if was, now := clean.cell(capability), c.cell(capability); was == "yes" && now != "yes" {
			without = append(without, "`"+capability+"`")
		}
	}
	found := "not noticed"
	if c.found.HazardReason(c.hazard) != "" {
		found = "noticed"
	}
	if len(without) > 0 {
		found += "; without " + strings.Join(without, ", ")
	}
	return found
}

// inCell is a text that a cell of a table can hold.
func inCell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}
