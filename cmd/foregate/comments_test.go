package main

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
