package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/foregate/foregate/"

// arrows is the import table: which of our packages each may import. docs/architecture.md
// explains it; a change here is a change there.
var arrows = map[string][]string{
	"cmd/foregate": {"gateway", "gateway/app", "gateway/config", "gateway/demo", "gateway/display", "gateway/files", "gateway/ledger", "gateway/settings", "gateway/stores", "internal/panics", "internal/redis/calls", "internal/words", "loadtest", "loadtest/measure", "loadtest/planner", "loadtest/trace", "loadtest/vllmsim", "tiers/evidence", "tiers/plan", "tiers/risk"},
	"cmd/loadtest": {"gateway/demo", "loadtest", "loadtest/chaos", "loadtest/cost", "loadtest/engines", "loadtest/fleets", "loadtest/live", "loadtest/pair", "loadtest/proof", "loadtest/quality", "loadtest/soak", "loadtest/virtual"},
	"cmd/vllmsim":  {"loadtest/vllmsim"},

	"gateway":                     {"cache", "gateway/admission", "gateway/clientapi", "gateway/clientapi/messages", "gateway/clientapi/responses", "gateway/conversations", "gateway/files", "gateway/identity", "gateway/ledger", "gateway/receipts", "gateway/settings", "gateway/tracing", "internal/words", "tiers", "tiers/dispatch", "tiers/engine", "tiers/evidence", "tiers/openai", "tiers/plan", "tiers/pool", "tiers/refit", "tiers/risk"},
	"gateway/admission":           {"gateway/identity", "tiers/pool"},
	"gateway/app":                 {"breaker", "cache", "gateway", "gateway/admission", "gateway/config", "gateway/console", "gateway/conversations", "gateway/display", "gateway/files", "gateway/identity", "gateway/ledger", "gateway/settings", "gateway/stores", "gateway/tracing", "internal/panics", "tiers", "tiers/accept", "tiers/audit", "tiers/credentials", "tiers/dialect", "tiers/dispatch", "tiers/economy", "tiers/engine", "tiers/evidence", "tiers/fleet", "tiers/openai", "tiers/plan", "tiers/pool", "tiers/prefix", "tiers/pressure", "tiers/probe", "tiers/refit", "tiers/risk", "tiers/upstream", "tiers/world"},
	"gateway/app/apptest":         {"gateway", "gateway/app", "gateway/config", "gateway/stores"}, // for tests alone
	"gateway/config":              {"gateway/identity", "internal/words", "internal/yamlfile", "tiers/dialect", "tiers/discover", "tiers/openai"},
	"gateway/console":             {"internal/uplot"},
	"gateway/conversations":       {"cache", "internal/redis/calls"},
	"gateway/receipts":            {"cache", "gateway/clientapi", "tiers", "tiers/accept", "tiers/dispatch", "tiers/economy", "tiers/openai", "tiers/plan"},
	"gateway/demo":                {"gateway/app", "gateway/config", "gateway/display", "gateway/stores", "internal/words", "loadtest/vllmsim", "tiers/dialect", "tiers/risk"},
	"gateway/display":             {"gateway", "gateway/files", "gateway/ledger", "gateway/settings", "internal/words", "tiers/risk"},
	"gateway/identity":            {"internal/words"},
	"gateway/ledger":              {"gateway/identity", "internal/panics", "internal/redis/calls"},
	"gateway/clientapi":           {"tiers/openai"},
	"gateway/clientapi/messages":  {"gateway/clientapi", "tiers/openai"},
	"gateway/clientapi/responses": {"gateway/clientapi", "tiers/openai"},
	"gateway/settings":            {"breaker", "cache", "gateway/admission", "gateway/conversations", "gateway/identity", "internal/panics", "internal/redis/calls", "internal/words", "internal/yamlfile", "tiers/plan"},
	"gateway/stores":              {"gateway/config", "gateway/files", "internal/redis/connect", "internal/redis/embedded"},
	"gateway/tracing":             {"gateway/receipts", "tiers", "tiers/dispatch"},
	"gateway/files":               {"internal/panics", "internal/words"},

	"tiers":               {"cache", "gateway/identity", "gateway/ledger", "internal/recent", "internal/redis/calls", "tiers/accept", "tiers/application", "tiers/audit", "tiers/credentials", "tiers/dispatch", "tiers/draft", "tiers/economy", "tiers/engine", "tiers/openai", "tiers/plan", "tiers/pool", "tiers/prefix", "tiers/probe", "tiers/risk", "tiers/world"},
	"tiers/accept":        {},
	"tiers/application":   {"tiers/openai"},
	"tiers/audit":         {"tiers/economy", "tiers/plan", "tiers/risk", "tiers/world"},
	"tiers/credentials":   {},
	"tiers/dialect":       {"tiers/openai"},
	"tiers/discover":      {"internal/words"},
	"tiers/dispatch":      {"internal/blame", "tiers/dialect", "tiers/economy", "tiers/engine", "tiers/openai", "tiers/plan", "tiers/pool", "tiers/world"},
	"tiers/draft":         {"tiers/accept", "tiers/openai", "tiers/plan", "tiers/schema"},
	"tiers/economy":       {},
	"tiers/engine":        {"tiers/accept", "tiers/credentials", "tiers/dialect", "tiers/openai"},
	"tiers/evidence":      {"internal/redis/calls", "tiers/risk"},
	"tiers/fleet":         {"internal/redis/calls", "tiers/prefix", "tiers/pressure"},
	"tiers/openai":        {},
	"tiers/plan":          {"tiers/accept", "tiers/dialect", "tiers/economy", "tiers/openai", "tiers/pool", "tiers/prefix", "tiers/probe", "tiers/risk"},
	"tiers/pool":          {"internal/panics", "tiers/credentials", "tiers/dialect", "tiers/discover", "tiers/economy", "tiers/pool/estimate", "tiers/prefix", "tiers/pressure"},
	"tiers/pool/estimate": {"tiers/pressure"},
	"tiers/prefix":        {},
	"tiers/pressure":      {"tiers/credentials", "tiers/dialect"},
	"tiers/probe":         {"internal/panics", "tiers/credentials", "tiers/dialect", "tiers/engine", "tiers/openai"},
	"tiers/refit":         {"tiers/accept", "tiers/evidence", "tiers/plan", "tiers/risk"},
	"tiers/risk":          {},
	"tiers/schema":        {},
	"tiers/upstream":      {"tiers/accept", "tiers/credentials", "tiers/dialect", "tiers/engine", "tiers/openai", "tiers/pool"},
	"tiers/world":         {},

	"breaker":                 {"internal/blame", "tiers/world"},
	"cache":                   {"internal/redis/calls", "internal/recent"},
	"internal/redis/connect":  {},
	"internal/redis/embedded": {"internal/redis/connect", "internal/panics"},
	"internal/redis/calls":    {"internal/panics"},
	"internal/blame":          {},
	"internal/certtest":       {}, // for tests alone
	"internal/golden":         {}, // for tests alone
	"internal/redistest":      {"internal/certtest", "internal/redis/connect", "internal/redis/embedded", "loadtest/process"},
	"internal/panics":         {},
	"internal/recent":         {},
	"internal/uplot":          {},
	"internal/words":          {},
	"internal/yamlfile":       {"internal/words"},

	"loadtest":                   {"internal/words", "internal/yamlfile"},
	"loadtest/answer":            {},
	"loadtest/chaos":             {"loadtest/answer", "loadtest/process", "loadtest/vllmsim"},
	"loadtest/drafts":            {"tiers/accept"},
	"loadtest/engines":           {"loadtest/process"},
	"loadtest/applications":      {}, // the rest of it is a test
	"loadtest/fleets":            {"loadtest", "loadtest/virtual", "loadtest/vllmsim"},
	"loadtest/live":              {"loadtest", "loadtest/answer", "loadtest/chaos", "loadtest/process", "loadtest/vllmsim"},                                                                                                                                             // the gateway over HTTP only
	"loadtest/pair":              {"gateway", "gateway/app", "gateway/config", "gateway/demo", "gateway/stores", "loadtest/answer", "loadtest/drafts", "loadtest/process", "tiers/accept", "tiers/evidence", "tiers/openai", "tiers/plan", "tiers/refit", "tiers/risk"}, // what mode risk makes of recorded audits is computed by its own functions
	"loadtest/measure":           {"internal/words", "loadtest/answer", "loadtest/process", "loadtest/vllmsim"},
	"loadtest/planner":           {"gateway/settings", "loadtest", "loadtest/fleets", "loadtest/trace", "loadtest/virtual", "loadtest/vllmsim"},
	"loadtest/process":           {},
	"loadtest/cost":              {}, // the rest of it is a benchmark
	"loadtest/proof":             {"loadtest", "loadtest/cost", "loadtest/fleets", "loadtest/pair", "loadtest/soak", "loadtest/virtual"},
	"loadtest/quality":           {"loadtest", "loadtest/vllmsim", "tiers/accept"},
	"loadtest/virtual":           {"breaker", "cache", "gateway/admission", "gateway/identity", "gateway/settings", "loadtest", "loadtest/quality", "loadtest/virtual/engines", "loadtest/virtual/eventloop", "loadtest/virtual/sharing", "loadtest/vllmsim", "tiers", "tiers/accept", "tiers/application", "tiers/audit", "tiers/credentials", "tiers/dispatch", "tiers/economy", "tiers/engine", "tiers/evidence", "tiers/openai", "tiers/plan", "tiers/pool", "tiers/prefix", "tiers/pressure", "tiers/probe", "tiers/refit", "tiers/risk"},
	"loadtest/soak":              {"loadtest/answer", "loadtest/chaos", "loadtest/process", "loadtest/vllmsim"},
	"loadtest/trace":             {"internal/words", "loadtest"},
	"loadtest/virtual/engines":   {"loadtest", "loadtest/quality", "loadtest/virtual/eventloop", "loadtest/vllmsim", "tiers/economy", "tiers/engine", "tiers/openai", "tiers/pool", "tiers/pressure"},
	"loadtest/virtual/eventloop": {"tiers/world"},
	"loadtest/virtual/sharing":   {"cache", "loadtest/virtual/engines", "loadtest/virtual/eventloop", "tiers"},
	"loadtest/vllmsim":           {},

	"deploy/grafana/make": {}, // dashboards; a test here asks a gateway whether it has their metrics
}

// walls says which packages alone may import a library: its vocabulary stays in
// those rooms. A folder stands for itself alone.
var walls = map[string][]string{
	"github.com/go-chi/chi":                {"gateway"},
	"github.com/santhosh-tekuri":           {}, // tests only
	"github.com/sony/gobreaker":            {"breaker"},
	"github.com/redis/go-redis":            {"cache", "cmd/foregate", "cmd/loadtest", "gateway/conversations", "gateway/ledger", "gateway/settings", "gateway/stores", "internal/redis/connect", "internal/redis/calls", "internal/redis/embedded", "internal/redistest", "loadtest/chaos", "tiers/evidence", "tiers/fleet"},
	"github.com/alicebob/miniredis":        {"internal/redis/embedded", "internal/redistest"},
	"github.com/alecthomas/kong":           {"cmd/foregate", "cmd/loadtest", "cmd/vllmsim"},
	"github.com/go-jose/go-jose":           {"gateway/identity"},
	"github.com/go-json-experiment/json":   {"gateway/clientapi", "gateway/conversations", "gateway/receipts", "loadtest/vllmsim", "tiers/openai"},
	"go.yaml.in/yaml":                      {"internal/yamlfile", "loadtest/vllmsim"},
	"github.com/HdrHistogram/hdrhistogram": {"loadtest"},
	"github.com/prometheus/common":         {"loadtest/vllmsim", "tiers/pressure"},
	"github.com/prometheus/client_golang":  {"breaker", "cache", "cmd/foregate", "gateway", "gateway/admission", "gateway/app", "gateway/app/apptest", "gateway/console", "gateway/conversations", "gateway/demo", "gateway/files", "gateway/ledger", "gateway/settings", "gateway/tracing", "internal/recent", "loadtest/vllmsim", "tiers", "tiers/dispatch", "tiers/economy", "tiers/evidence", "tiers/fleet", "tiers/pool", "tiers/probe", "tiers/refit"},
	"github.com/rs/zerolog":                {"breaker", "cache", "cmd/foregate", "gateway", "gateway/app", "gateway/app/apptest", "gateway/conversations", "gateway/demo", "gateway/files", "gateway/ledger", "gateway/settings", "gateway/tracing", "tiers/evidence", "tiers/fleet", "tiers/pool", "tiers/probe", "tiers/refit"},
	"github.com/klauspost/compress":        {"cache"},
	"github.com/cespare/xxhash":            {"tiers", "tiers/application", "tiers/pool", "tiers/prefix"},
	"go.opentelemetry.io":                  {"gateway/tracing"},
	"github.com/google/go-cmp":             {"internal/golden"}, // tests only
}

// eachPath visits every Go file of the module that is not a test, with the folder of its package.
func eachPath(t *testing.T, visit func(dir, path string) error) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(dir), path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eachFile parses every Go file of the module that is not a test.
func eachFile(t *testing.T, visit func(dir string, imports []string, pkgDoc bool)) {
	t.Helper()
	eachPath(t, func(dir, path string) error {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, name)
		}
		visit(dir, imports, f.Doc != nil)
		return nil
	})
}

func TestImportsFollowTheArrows(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(dir string, imports []string, _ bool) {
		allowed, known := arrows[dir]
		if !known {
			t.Errorf("package %s is not in the import table", dir)
		}
		seen[dir] = true
		for _, name := range imports {
			if ours, ok := strings.CutPrefix(name, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s, which the table does not allow", dir, ours)
			}
		}
	})
	for dir := range arrows {
		if !seen[dir] {
			t.Errorf("the import table names %s, which does not exist", dir)
		}
	}
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	eachFile(t, func(dir string, imports []string, _ bool) {
		for _, name := range imports {
			for library, rooms := range walls {
				if strings.HasPrefix(name, library) && !slices.Contains(rooms, dir) {
					t.Errorf("%s imports %s, which belongs in %v", dir, name, rooms)
				}
			}
		}
	})
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, func(dir string, _ []string, doc bool) { documented[dir] = documented[dir] || doc })
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestWhatIsTestedWithoutTheRaceDetectorIsOfOneGoroutine holds the Makefile's ALONE to what it says.
func TestWhatIsTestedWithoutTheRaceDetectorIsOfOneGoroutine(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nALONE := ")
	line, _, _ := strings.Cut(rest, "\n")
	if line == "" {
		t.Fatal("the Makefile names no such packages")
	}
	for dir := range strings.FieldsSeq(line) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				startsNothing(t, file)
			}
		}
	}
}

// startsNothing fails the test for a file with a go statement, or with a lock.
func startsNothing(t *testing.T, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		if name, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(name, "sync") || name == "net" || strings.HasPrefix(name, "net/") {
			t.Errorf("%s imports %s", file, name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			t.Errorf("%s starts a goroutine", file)
		}
		return true
	})
}

func TestFilesStayShort(t *testing.T) {
	const maximum = 500
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		src, err := os.ReadFile(path)
		if lines := strings.Count(string(src), "\n"); lines > maximum {
			t.Errorf("%s has %d lines, more than %d", path, lines, maximum)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
