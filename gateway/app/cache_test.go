package app

import (
	"testing"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers"
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
	for i, want := range []tiers.Served{{Draft: "s 2026-01", Target: "l"}, {Target: "s 2026-01"}} {
		if got := served(f, f.Routes[i]); got != want {
			t.Errorf("%s: %+v, want %+v", f.Routes[i].Model, got, want)
		}
	}
}
