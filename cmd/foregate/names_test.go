package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goneWords are words that no identifier may contain, with the field's own term for each.
var goneWords = map[string]string{
	"twin": "audit draft", "purse": "audit budget", "rally": "block verification", "thinning": "rejection sampling",
	"heir": "continuation pool", "unheal": "undo", "owe": "pending match", "exam": "capability probe", "nudge": "notify", "ear": "subscriber",
	"meddle": "intercept", "meddled": "intercepted", "vitals": "health monitor", "vacate": "leader lost",
	"purses": "audit budgets", "legs": "segments", "stamps": "evidence keys, or decisions", "lot": "cohort", "lots": "cohorts",
	"takeovers": "failovers", "riddle": "what it does",
	"lacks": "missing capabilities", "ladder": "degradation levels", "rung": "degradation level", "pile": "batch",
	"errand": "background task", "trickle": "demo traffic", "parcel": "message", "census": "sample", "door": "listener",
	"owed": "pending match", "teller": "what it does",
}

// goneNames are whole identifiers that may not come back, with their replacements.
var goneNames = map[string]string{
	"Said": "Sent", "Apart": "PerTenantEvidence",
	"Sums": "Estimate", "AtOnce": "MaxConcurrent…", "Foresee": "Forecast",
}

// identifierWords splits an identifier into its words: maxHTTPBytes is max, HTTP and Bytes.
var identifierWords = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// boundPrefix finds bounds that are not named max… or min….
var boundPrefix = regexp.MustCompile(`^(most|least|Most|Least)[A-Z]`)

// problemOf says what is wrong with an identifier; "" is nothing. A test's name is a sentence, in which any word may stand.
func problemOf(name string) string {
	if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Benchmark") {
		return ""
	}
	if better, gone := goneNames[name]; gone {
		return "use " + better
	}
	if boundPrefix.MatchString(name) {
		return "a bound is max… or min…"
	}
	for _, word := range identifierWords.FindAllString(name, -1) {
		if better, gone := goneWords[strings.ToLower(word)]; gone {
			return "use " + better
		}
	}
	return ""
}

// declared calls see for each identifier that a file declares: types, functions, methods, fields, parameters, variables.
func declared(file *ast.File, see func(*ast.Ident)) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			see(n.Name)
		case *ast.TypeSpec:
			see(n.Name)
		case *ast.Field:
			for _, id := range n.Names {
				see(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				see(id)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					see(id)
				}
			}
		}
		return true
	})
}

// eachParsed parses every Go file of the repository, tests included.
func eachParsed(t *testing.T, set *token.FileSet, visit func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "vendor" || d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil {
			visit(strings.TrimPrefix(path, "../../"), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNamesAreTheFieldsOwn(t *testing.T) {
	set, problems := token.NewFileSet(), map[string]string{}
	eachParsed(t, set, func(_ string, file *ast.File) {
		declared(file, func(id *ast.Ident) {
			if problem := problemOf(id.Name); problem != "" {
				problems[set.Position(id.Pos()).String()] = id.Name + ": " + problem
			}
		})
	})
	for _, at := range slices.Sorted(maps.Keys(problems)) {
		t.Errorf("%s: %s", strings.TrimPrefix(at, "../../"), problems[at])
	}
}

// A receiver is one to three letters of its type's name, in their order, from the beginning of one of its words: t, st or tr of
// ScoreTracker. It is the same in all methods.
func TestReceiversFitTheirTypes(t *testing.T) {
	names := map[string]string{}
	eachParsed(t, token.NewFileSet(), func(path string, file *ast.File) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_" {
				continue
			}
			of := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
			of, _, _ = strings.Cut(of, "[")
			name, key := f.Recv.List[0].Names[0].Name, filepath.Dir(path)+" "+file.Name.Name+"."+of
			if before, seen := names[key]; seen && before != name {
				t.Errorf("%s: the receiver of %s is %s, and elsewhere %s", path, of, name, before)
			}
			names[key] = name
			first, rest := name[:1], strings.Join(strings.Split(name[1:], ""), ".*")
			fits := regexp.MustCompile("(^" + first + "|" + strings.ToUpper(first) + ").*(?i:" + rest + ")")
			if len(name) > 3 || !fits.MatchString(of) {
				t.Errorf("%s: %s is no receiver for %s", path, name, of)
			}
		}
	})
}

var (
	// docLink finds the links of a comment: to a name, to one of a package, and to members of these.
	docLink = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,2})\](?:[\s.,;:)']|$)`)
	// innerCapital finds words that look like identifiers: an inner capital, and no quotes around.
	innerCapital = regexp.MustCompile(`(?:^|[\s(])([a-z]+[A-Z]\w*)`)
	word         = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// notGo are words with an inner capital that are no identifiers.
var notGo = map[string]bool{"vLLM": true, "vLLMs": true, "gRPC": true, "maxHTTPBytes": true, "dBeta": true}

// TestCommentsNameWhatExists resolves the links of comments in the package, or in ours that they name, and words with an
// inner capital anywhere in the repository, strings included.
func TestCommentsNameWhatExists(t *testing.T) {
	set, files, known := token.NewFileSet(), map[string]*ast.File{}, map[string]bool{}
	declares := map[string]map[string]bool{} // by the name of a package
	eachParsed(t, set, func(at string, file *ast.File) {
		files[at] = file
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		for _, name := range []string{pkg, path.Base(path.Dir(at))} {
			if declares[name] == nil {
				declares[name] = map[string]bool{}
			}
			declared(file, func(id *ast.Ident) { declares[name][id.Name] = true })
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				for _, w := range word.FindAllString(n.Value, -1) {
					known[w] = true
				}
			}
			return true
		})
	})
	for at, file := range files {
		for _, group := range file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			for _, m := range docLink.FindAllStringSubmatch(text, -1) {
				if !linkExists(file, declares, m[1]) {
					t.Errorf("%s:%d: [%s] is nothing", at, set.Position(group.Pos()).Line, m[1])
				}
			}
			for _, m := range innerCapital.FindAllStringSubmatch(text, -1) {
				if !known[m[1]] && !notGo[m[1]] {
					t.Errorf("%s:%d: %s is no identifier", at, set.Position(group.Pos()).Line, m[1])
				}
			}
		}
	}
}

// linkExists reports whether a link names what its package declares, or ours that it names. Those to dependencies pass.
func linkExists(file *ast.File, declares map[string]map[string]bool, link string) bool {
	all := func(in map[string]bool, names []string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !in[name] })
	}
	parts := strings.Split(link, ".")
	if link == "DONE" || len(link) == 1 || all(declares[strings.TrimSuffix(file.Name.Name, "_test")], parts) {
		return true
	}
	if len(parts) == 1 {
		return false
	}
	if in := declares[parts[0]]; in == nil && parts[0] == strings.ToLower(parts[0]) || in != nil && all(in, parts[1:]) {
		return true
	}
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return !strings.Contains(i.Path.Value, module) && strings.Contains(i.Path.Value, parts[0])
	})
}
