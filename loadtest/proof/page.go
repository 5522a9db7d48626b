package proof

import (
	"bytes"
	_ "embed"
	"html/template"
	"math"

	"github.com/foregate/foregate/loadtest"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("proof").Parse(pageHTML))
)

// page is what the template shows.
type page struct {
	CSS                 template.CSS
	Held, Judged, Seeds int
	Claims              []pageClaim
	Charts              []chart
	Tables              []pageTable
}

type pageClaim struct {
	ID, Text, Note string
	Cells          []string
}

type chart struct {
	Title, About string
	SVG          template.HTML
}

type pageTable struct {
	Title, About string
	Head         []string
	Rows         [][]string
}

// HTML is the page with charts. It needs nothing else and no network.
func (d *Document) HTML() ([]byte, error) {
	p := page{CSS: template.CSS(loadtest.PageCSS + pageCSS), Seeds: len(d.Results.Seeds)} //nolint:gosec // our own files
	for i := range d.Claims {
		c := &d.Claims[i]
		p.Claims = append(p.Claims, pageClaim{c.ID, c.Text + c.where(), c.Note, d.cells(c)})
		switch c.verdict(d.Results.of(c)) {
		case Held:
			p.Held++
			p.Judged++
		case NotReached:
			p.Judged++
		case NoGoal, Unmeasured:
		}
	}
	p.Charts = d.charts()
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, p)
	return out.Bytes(), err
}

func (d *Document) charts() []chart {
	return []chart{d.ratioChart()}
}

// ratioChart shows how many times the baseline's each figure is.
func (d *Document) ratioChart() chart {
	var list []dotRow
	low, high := 0.5, 2.0
	for i := range d.Claims {
		c := &d.Claims[i]
		pairs := d.Results.of(c)
		f := figures(pairs)
		if f.Ratio.N == 0 || f.Ratio.Min <= 0 {
			continue
		}
		r := dotRow{name: c.ID, value: f.Ratio, text: times.Spread(f.Ratio), title: c.Text + ": " + times.Spread(f.Ratio)}
		if c.verdict(pairs) == NotReached {
			r.class = "missed"
		}
		if c.Goal.Of == Ratio {
			r.goal = c.Goal.Bound
			low, high = min(low, r.goal), max(high, r.goal)
		}
		low, high = min(low, f.Ratio.Min), max(high, f.Ratio.Max)
		list = append(list, r)
	}
	return chart{
		Title: "Beside the baseline",
		About: "How many times the baseline's figure Foregate's is: the mean, and the range over seeds. A diamond is the goal; another colour is a claim that does not hold.",
		SVG:   dotPlot("Ratios of claims", list, ratios(math.Max(low*0.8, 0.005), high*1.25)),
	}
}
