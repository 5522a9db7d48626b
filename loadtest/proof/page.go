package proof

import (
	"bytes"
	_ "embed"
	"html/template"
	"regexp"
	"strings"

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
	Sections            []section
}

type pageClaim struct {
	Text, Note, Command string
	Cells               []string
	Missed              bool
}

type chart struct {
	Title, About string
	SVG          template.HTML
}

// HTML is the page with charts. It needs nothing else and no network.
func (d *Document) HTML() ([]byte, error) {
	p := page{CSS: template.CSS(loadtest.PageCSS + pageCSS), Seeds: len(d.Results.Seeds)} //nolint:gosec // our own files
	for i := range d.Claims {
		c := &d.Claims[i]
		verdict := c.verdict(d.Results.of(c))
		p.Claims = append(p.Claims, pageClaim{plainText(c.Text + c.where()), plainText(c.Note), c.command(), d.cells(c), verdict == NotReached})
		switch verdict {
		case Held:
			p.Held++
			p.Judged++
		case NotReached:
			p.Judged++
		case NoGoal, Unmeasured:
		}
	}
	p.Charts = d.charts()
	for _, t := range tables() {
		if cells := d.Results.Tables[t.Scenario]; len(cells) > 0 {
			s := t.section(cells)
			p.Sections = append(p.Sections, s.plain())
		}
	}
	for _, s := range d.Parts.sections() {
		p.Sections = append(p.Sections, s.plain())
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, p)
	return out.Bytes(), err
}

// links are links of Markdown.
var links = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText is text without the signs of Markdown.
func plainText(s string) string {
	return strings.NewReplacer("`", "", "*", "").Replace(links.ReplaceAllString(s, "$1"))
}
