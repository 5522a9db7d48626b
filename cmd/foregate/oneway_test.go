package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shallow imports what carries our types through, and empty packages in the place of all others.
type shallow struct{ types.Importer }

func (s shallow) Import(name string) (*types.Package, error) {
	if slices.Contains([]string{"maps", "slices", "sync", "sync/atomic"}, name) {
		return s.Importer.Import(name)
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// usesOf are, by file of the package in a folder, the files that it uses something of.
func usesOf(t *testing.T, from types.Importer, dir string) map[string]map[string]bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What comes of the empty packages is an error each, and of no interest.
	config := types.Config{Importer: from, Error: func(error) {}}
	pkg, _ := config.Check(dir, fset, files, info)
	uses := map[string]map[string]bool{}
	for id, object := range info.Uses {
		user, used := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
		if object.Pkg() != pkg || user == used {
			continue
		}
		if uses[user] == nil {
			uses[user] = map[string]bool{}
		}
		uses[user][used] = true
	}
	return uses
}

// loopsOf takes away, again and again, the files that use none of the others, or are used by none:
// what stays goes round.
func loopsOf(uses map[string]map[string]bool) {
	for found := true; found; {
		found = false
		isUsed := map[string]bool{}
		for user, used := range uses {
			maps.DeleteFunc(used, func(name string, _ bool) bool { return uses[name] == nil })
			if len(used) == 0 {
				delete(uses, user)
				found = true
			}
			maps.Copy(isUsed, used)
		}
		maps.DeleteFunc(uses, func(user string, _ map[string]bool) bool {
			found = found || !isUsed[user]
			return !isUsed[user]
		})
	}
}

// Each package can so be read from its lowest file up, every file with those below it alone.
func TestUsesBetweenTheFilesOfAPackageBelowTiersRunOneWay(t *testing.T) {
	from := shallow{importer.ForCompiler(token.NewFileSet(), "source", nil)}
	err := filepath.WalkDir(filepath.Join("..", "..", "tiers"), func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		uses := usesOf(t, from, dir)
		loopsOf(uses)
		for user, used := range uses {
			t.Errorf("%s: %s uses %v, and is used by them", dir, user, slices.Sorted(maps.Keys(used)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
