package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// worldly are the packages that a request runs through in the gateway and in the lab: time, waits, cancellation and
// background work come from tiers/world.
var worldly = []string{
	"tiers", "tiers/accept", "tiers/audit", "tiers/dispatch", "tiers/draft", "tiers/economy", "tiers/engine",
	"tiers/openai", "tiers/plan", "tiers/prefix", "tiers/risk", "tiers/schema",
}

// collecting are the files of these that no request runs through: Prometheus takes what they collect from a channel.
var collecting = []string{"tiers/economy/metrics.go"}

// serverless are those of them that know of no server, client, metrics and logs. Those of the tiers may use HTTP's headers
// and statuses.
var serverless = []string{
	"tiers", "tiers/accept", "tiers/audit", "tiers/dispatch", "tiers/draft", "tiers/engine",
	"tiers/openai", "tiers/plan", "tiers/prefix", "tiers/risk", "tiers/schema",
}

// counting are the files of these that have counters.
var counting = []string{"tiers/cascade.go", "tiers/metrics.go", "tiers/dispatch/dispatch.go"}

func TestARequestMeetsTimeOnlyInItsWorld(t *testing.T) {
	eachSource(t, worldly, func(t *testing.T, name string, f *ast.File) {
		if !slices.Contains(collecting, name) {
			meetsTimeInItsWorld(t, name, f)
		}
	})
}

func TestARequestKnowsOfNoServer(t *testing.T) {
	eachSource(t, serverless, knowsNoServer)
}

// eachSource visits the files of packages, but for tests.
func eachSource(t *testing.T, dirs []string, visit func(t *testing.T, name string, f *ast.File)) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			visit(t, dir+"/"+filepath.Base(file), f)
		}
	}
}

// meetsTimeInItsWorld fails the test for a file with a go statement, a select statement, a channel, or a function of the
// system's clock or contexts.
func meetsTimeInItsWorld(t *testing.T, name string, f *ast.File) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			t.Errorf("%s has a %T", name, n)
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				t.Errorf("%s receives from a channel", name)
			}
		}
		if pkg, of := selected(n); ofTheSystem(pkg, of) {
			t.Errorf("%s uses %s.%s", name, pkg, of)
		}
		return true
	})
}

// knowsNoServer fails the test for a file that imports what runs, watches or calls one.
func knowsNoServer(t *testing.T, name string, f *ast.File) {
	t.Helper()
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		for _, barred := range []string{"net", "os", "github.com/prometheus", "github.com/rs/zerolog", "github.com/redis"} {
			vocabulary := path == "net/http" && strings.HasPrefix(name, "tiers/")
			counts := barred == "github.com/prometheus" && slices.Contains(counting, name)
			if !vocabulary && !counts && (path == barred || strings.HasPrefix(path, barred+"/")) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if pkg, of := selected(n); pkg == "http" && of != "Header" && !strings.HasPrefix(of, "Status") {
			t.Errorf("%s uses http.%s", name, of)
		}
		return true
	})
}

// selected names the package and what is selected from it, "" for any other node.
func selected(n ast.Node) (pkg, of string) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if id, ok := s.X.(*ast.Ident); ok {
		return id.Name, s.Sel.Name
	}
	return "", ""
}

// ofTheSystem says whether a function belongs to the system's clock, or makes a context that ends.
func ofTheSystem(pkg, name string) bool {
	switch pkg {
	case "time":
		return slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, name)
	case "context":
		return name == "AfterFunc" || strings.HasPrefix(name, "With") && name != "WithValue" && name != "WithoutCancel"
	}
	return false
}
