package loadtest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"

	"github.com/foregate/foregate/internal/uplot"
)

var (
	//go:embed page.html
	pageHTML string
	// PageCSS is the style sheet of the lab's pages.
	//
	//go:embed page.css
	PageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)

// page is what the template shows.
type page struct {
	CSS                         template.CSS
	Script                      template.JS
	Policy                      string // what the page may load and run: nothing but Script
	Name, About, Kind, Command  string
	Seed                        uint64
	Notes                       []string
	First                       string // case
	Several                     bool   // cases
	Tiles                       []tile
	Cases                       []string
	Table                       []tableSection
	Latency                     []figure
	Flow, TTFT, Memory, Costs   []figure
	Quality, Failures           []figure
	Priorities, Tenants         []groupRow
	ShowPriorities, ShowTenants bool
	Warmup                      bool
}

// tile is one number of the headline.
type tile struct{ Name, Value, Case, Base string }

// tableSection is a group of lines of the table.
type tableSection struct {
	Name  string
	Lines []tableLine
}

type tableLine struct {
	Name, Unit string
	Cells      []tableCell
}

type tableCell struct{ Value, Ratio, Class string }

// groupRow is a line of the tables of priorities and tenants.
type groupRow struct {
	Case, Name, Requests, Answered, Shed, Errors, TTFT50, TTFT95 string
}

// library is a file of uPlot.
func library(name string) string {
	text, err := uplot.Files.ReadFile(name)
	if err != nil {
		panic(err) // the file is in the binary
	}
	return string(text) + "\n"
}

// HTML is the report as one page that needs nothing else and no network. Its charts are drawn by the
// script in it.
func (r *Report) HTML() ([]byte, error) {
	cases := r.measured()
	for i := range cases {
		cases[i].Name = cmp.Or(cases[i].Name, fmt.Sprint("case ", i+1))
	}
	c := newClock(cases)
	script := library("uPlot.iife.min.js") + pageJS
	sum := sha256.Sum256([]byte(script))
	p := page{
		CSS:    template.CSS(library("uPlot.min.css") + PageCSS), //nolint:gosec // our own files
		Script: template.JS(script),                              //nolint:gosec // our own files
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Name:   cmp.Or(r.name(), "unnamed"), About: r.about(), Kind: cmp.Or(r.Kind, "unknown"), Command: r.Command,
		Seed: r.Seed, Notes: r.Notes, Several: len(cases) > 1,
		Tiles: tiles(cases), Table: tableSections(cases),
		Failures: failures(cases),
	}
	if len(cases) > 0 {
		p.First = cases[0].Name
		p.Latency = []figure{
			distribution("Time to first token", "TTFT", cases, func(m measured) []share { return m.TTFTCurve }),
			distribution("Whole answer", "E2E", cases, func(m measured) []share { return m.E2ECurve }),
		}
		p.Costs, p.Quality = costs(cases), goodness(cases)
		p.Flow, p.TTFT = c.overTime(cases)
	}
	for _, m := range cases {
		p.Cases = append(p.Cases, m.Name)
		p.Memory = append(p.Memory, c.memory(m))
		p.Priorities = append(p.Priorities, groupRows(m.Name, m.Priorities)...)
		p.Tenants = append(p.Tenants, groupRows(m.Name, m.Tenants)...)
		p.ShowPriorities = p.ShowPriorities || len(m.Priorities) > 1
		p.ShowTenants = p.ShowTenants || len(m.Tenants) > 1
		p.Warmup = p.Warmup || m.Warmup > 0
	}
	out := &bytes.Buffer{}
	err := pageTemplate.Execute(out, p)
	return out.Bytes(), err
}

// tiles are the headline: of each number that matters most the best case's,
// beside the first's.
func tiles(cases []measured) []tile {
	out := []tile{}
	for _, name := range []string{"TTFT p95", "E2E p95", "Answers per second", "Per million tokens", "Prefix hits", "Errors"} {
		for _, s := range metrics(cases) {
			i := slices.IndexFunc(s.metrics, func(x metric) bool { return x.name == name })
			if i >= 0 {
				out = append(out, s.metrics[i].tiles(cases)...)
			}
		}
	}
	return out
}

// tiles is one tile, or none if no case can tell.
func (x metric) tiles(cases []measured) []tile {
	best := -1
	for i, m := range cases {
		if x.base != nil && x.base(m) == 0 || m.Requests == 0 {
			continue
		}
		if best < 0 || float64(x.good)*(x.of(m)-x.of(cases[best])) > 0 {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	t := tile{Name: x.name, Value: x.unit.with(x.of(cases[best]))}
	if len(cases) > 1 {
		t.Case = cases[best].Name
	}
	if best > 0 && x.text(cases[0]) != "–" {
		t.Base = x.unit.with(x.of(cases[0])) + " in " + cases[0].Name
		if q := x.ratio(cases[best], cases[0]); q != "" && q != "=" {
			t.Base = q + " of " + t.Base
		}
	}
	return []tile{t}
}

// tableSections are the lines of the table.
func tableSections(cases []measured) []tableSection {
	out := []tableSection{}
	for _, s := range metrics(cases) {
		section := tableSection{Name: s.name}
		for _, x := range s.metrics {
			line := tableLine{Name: x.name, Unit: x.unit.label()}
			for i, m := range cases {
				cell := tableCell{Value: x.text(m)}
				if i > 0 {
					cell.Ratio = x.ratio(m, cases[0])
					cell.Class = x.class(m, cases[0])
				}
				line.Cells = append(line.Cells, cell)
			}
			section.Lines = append(section.Lines, line)
		}
		out = append(out, section)
	}
	return out
}

// class says whether a case is clearly better or worse than the first.
func (x metric) class(m, first measured) string {
	if x.base != nil && (x.base(m) == 0 || x.base(first) == 0) {
		return ""
	}
	a, b := x.of(m), x.of(first)
	switch gain := float64(x.good) * (a - b); {
	case gain > 0.05*max(a, b):
		return "better"
	case gain < -0.05*max(a, b):
		return "worse"
	}
	return ""
}

func groupRows(name string, groups []group) []groupRow {
	out := []groupRow{}
	for i, g := range groups {
		row := groupRow{
			Name: cmp.Or(g.Name, "–"), Requests: whole(float64(g.Requests)), Answered: whole(float64(g.Answered)),
			Shed: whole(float64(g.Shed)), Errors: whole(float64(g.Error)), TTFT50: "–", TTFT95: "–",
		}
		if i == 0 {
			row.Case = name
		}
		if g.TTFT95 > 0 {
			row.TTFT50, row.TTFT95 = millis.text(g.TTFT50), millis.text(g.TTFT95)
		}
		out = append(out, row)
	}
	return out
}
