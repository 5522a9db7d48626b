package docs_test

import (
	"flag"
	"fmt"
	"go/doc"
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

var update = flag.Bool("update", false, "write the packages and their imports into architecture.md")

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

// tree lists the packages, each with the first clause of its package comment.
func tree(t *testing.T) string {
	t.Helper()
	clauses := map[string]string{}
	eachFile(t, regexp.MustCompile(`\.go$`), func(name, text string) {
		if strings.HasPrefix(name, ".ci/") || strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(new(doc.Package).Synopsis(f.Doc.Text()))
		if len(words) > 2 {
			clause, _, _ := strings.Cut(strings.Join(words[2:], " "), ":")
			clauses[path.Dir(name)] = linkBrackets.ReplaceAllString(strings.TrimSuffix(clause, "."), "$1")
		}
	})
	var b strings.Builder
	b.WriteString("\n```\n")
	for _, dir := range slices.Sorted(maps.Keys(clauses)) {
		fmt.Fprintf(&b, "%s  %s\n", dir, clauses[dir])
	}
	return b.String() + "```\n"
}

// linkBrackets are those of a documentation comment around the name of a type.
var linkBrackets = regexp.MustCompile(`\[(\w+)\]`)

// TestThePackagesAreThoseOfTheCode holds the generated parts of architecture.md to the code: the tree of packages, and
// who imports whom.
func TestThePackagesAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, part := range map[string]string{"packages": tree(t), "imports": importsOf(t).mermaid()} {
		before, rest, found := strings.Cut(want, "<!-- "+name+": generated -->\n")
		_, after, closed := strings.Cut(rest, "<!-- /"+name+" -->")
		if !found || !closed {
			t.Fatalf("architecture.md has no place for %s", name)
		}
		want = before + "<!-- " + name + ": generated -->\n" + part + "\n<!-- /" + name + " -->" + after
	}
	if *update {
		if err := os.WriteFile("architecture.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("the packages in docs/architecture.md are stale; run go test ./docs -update")
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
