package main

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// interfaces are all interfaces of the product. The list is to become shorter: an interface is for two implementations, of which
// the lab's may be one. A test's is none.
var interfaces = strings.Fields(`
	breaker.Local gateway.Replica gateway/clientapi.API gateway/clientapi.Encoder gateway/clientapi.Writer
	gateway/clientapi/responses.State internal/yamlfile.Reader tiers.Observer tiers.Sink tiers.Store
	tiers/audit.Evidence tiers/discover.Resolver tiers/dispatch.Breaker tiers/dispatch.Events tiers/dispatch.Permit
	tiers/dispatch.Queue tiers/engine.Stream tiers/engine.Upstream tiers/evidence.entryLog tiers/fleet.Pool tiers/pool.Fleet
	tiers/refit.Book tiers/upstream.answer tiers/world.Signal tiers/world.World`)

func TestInterfacesAreFew(t *testing.T) {
	found := map[string]bool{}
	eachParsed(t, token.NewFileSet(), func(at string, file *ast.File) {
		for _, outside := range []string{"loadtest/", "cmd/loadtest/", "cmd/vllmsim/", "."} {
			if strings.HasPrefix(at, outside) || strings.HasSuffix(at, "_test.go") {
				return
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, is := spec.Type.(*ast.InterfaceType); is {
					found[path.Dir(at)+"."+spec.Name.Name] = true
				}
			}
			return true
		})
	})
	for name := range found {
		if !slices.Contains(interfaces, name) {
			t.Errorf("%s is a new interface: use the type that implements it", name)
		}
	}
	for _, name := range interfaces {
		if !found[name] {
			t.Errorf("%s is gone: strike it from the list", name)
		}
	}
}
