package proof

import (
	"fmt"
	"strings"
)

// section is a part of the page.
type section struct {
	Title, About string // About in Markdown
	Grids        []grid
}

// grid is a table with a text before it; either may be missing.
type grid struct {
	Text string // Markdown
	Head []string
	Rows [][]string
}

// write puts the section onto the page.
func (s *section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, s.About)
	for _, g := range s.Grids {
		b.WriteString("\n")
		if g.Text != "" {
			b.WriteString(g.Text + "\n")
		}
		if len(g.Head) == 0 {
			continue
		}
		if g.Text != "" {
			b.WriteString("\n")
		}
		row(b, g.Head...)
		line(b, len(g.Head))
		for _, cells := range g.Rows {
			row(b, cells...)
		}
	}
}
