package docs_test

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the import graph into architecture.md")

const module = "github.com/foregate/foregate/"

// graph is which of our packages each of them imports, tests left out.
type graph map[string]map[string]bool

func importsOf(t *testing.T) graph {
	t.Helper()
	g := graph{}
	eachFile(t, regexp.MustCompile(`\.go$`), func(name, text string) {
		dir := path.Dir(name)
		if strings.HasPrefix(name, ".ci/") || dir == "docs" {
			return
		}
		if g[dir] == nil {
			g[dir] = map[string]bool{}
		}
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			full, _ := strconv.Unquote(i.Path.Value)
			if ours, ok := strings.CutPrefix(full, module); ok {
				g[dir][ours] = true
			}
		}
	})
	return g
}

// closure returns the graph with everything that each package imports by way of others.
func (g graph) closure() graph {
	all := graph{}
	var walk func(string) map[string]bool
	walk = func(from string) map[string]bool {
		if all[from] == nil {
			all[from] = map[string]bool{}
			for next := range g[from] {
				all[from][next] = true
				maps.Copy(all[from], walk(next))
			}
		}
		return all[from]
	}
	for from := range g {
		walk(from)
	}
	return all
}

// mermaid draws the product's packages that import others. An arrow that follows from two others is left
// out, and so are programs and the lab, which nothing of the product imports.
func (g graph) mermaid() string {
	all := g.closure()
	var b strings.Builder
	b.WriteString("\n```mermaid\nflowchart LR\n")
	for _, from := range slices.Sorted(maps.Keys(g)) {
		if regexp.MustCompile(`^(cmd|loadtest|deploy)(/|$)`).MatchString(from) {
			continue
		}
		var to []string
		for _, next := range slices.Sorted(maps.Keys(g[from])) {
			if len(g[next]) == 0 {
				continue // leaves would hide the rest
			}
			direct := true
			for other := range g[from] {
				direct = direct && !all[other][next]
			}
			if direct {
				to = append(to, next)
			}
		}
		if len(to) > 0 {
			fmt.Fprintf(&b, "  %s --> %s\n", from, strings.Join(to, " & "))
		}
	}
	b.WriteString("```\n")
	return b.String()
}

func TestTheImportGraphIsThatOfTheCode(t *testing.T) {
	const begin, end = "<!-- imports: generated -->\n", "<!-- /imports -->"
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("architecture.md has no place for the graph")
	}
	want := before + begin + importsOf(t).mermaid() + "\n" + end + after
	if *update {
		if err := os.WriteFile("architecture.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("the import graph in docs/architecture.md is stale; run make docs")
	}
}

// TestTheTreeHasEveryPackage compares the first words of the tree's lines with the folders.
func TestTheTreeHasEveryPackage(t *testing.T) {
	text := papers(t)["docs/architecture.md"].text
	_, tree, _ := strings.Cut(text, "\n## The tree\n\n```\n")
	tree, _, _ = strings.Cut(tree, "```")
	listed := map[string]bool{}
	for line := range strings.Lines(tree) {
		listed[strings.Fields(line)[0]] = true
	}
	packages := importsOf(t)
	for name := range packages {
		if !listed[name] {
			t.Errorf("the tree of docs/architecture.md lacks %s", name)
		}
	}
	for name := range listed {
		if packages[name] == nil {
			t.Errorf("the tree of docs/architecture.md has %s, which does not exist", name)
		}
	}
}

// TestEveryTypeThatTheArchitectureNamesIsThere: of the form package.Name, between backticks.
func TestEveryTypeThatTheArchitectureNamesIsThere(t *testing.T) {
	declared := map[string]string{} // package: its sources
	eachFile(t, regexp.MustCompile(`^(?:tiers|gateway|cache|breaker)/.*\.go$`), func(name, text string) {
		declared[path.Base(path.Dir(name))] += text
	})
	for _, m := range regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w+)`").FindAllStringSubmatch(papers(t)["docs/architecture.md"].text, -1) {
		if !strings.Contains(declared[m[1]], "\ntype "+m[2]+" ") {
			t.Errorf("docs/architecture.md names %s.%s, which does not exist", m[1], m[2])
		}
	}
}
