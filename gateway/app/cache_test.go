package app

import (
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestWhatAPoolServesIsItsModelAndRevision(t *testing.T) {
	f, err := config.Parse("f", []byte(`listen: 127.0.0.1:0
pools:
  small: {model: s, revision: "2026-01", backends: ["http://h:1"]}
  large: {model: l, backends: ["http://h:2"]}
routes: [{model: both, draft: small, target: large}, {model: alone, target: small}]
`))
	if err != nil {
		t.Fatal(err)
	}
	a := &App{}
	a.routing.Store(&routing{file: f, routes: map[string]config.Route{"both": f.Routes[0], "alone": f.Routes[1]}})
	for route, want := range map[string][2]string{"both": {"s 2026-01", "l"}, "alone": {"", "s 2026-01"}, "none": {}} {
		if draft, target := a.served(route); draft != want[0] || target != want[1] {
			t.Errorf("%s: %q and %q, want %q", route, draft, target, want)
		}
	}
}
