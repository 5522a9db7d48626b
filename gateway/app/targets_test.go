package app

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestPoolsThatCannotBeComparedAreWarnedOf(t *testing.T) {
	const file = `listen: 127.0.0.1:0
redis: {url: "redis://127.0.0.1:1"}
pools:
  d: {model: d, backends: ["http://127.0.0.1:1"], usd_per_hour: 1, prefill_tokens_per_s: 10000, decode_tokens_per_s: 1000}
  a: {model: m, backends: ["http://127.0.0.1:2"], usd_per_hour: 10, prefill_tokens_per_s: 10000, decode_tokens_per_s: 100}
  b: {model: m, backends: ["http://127.0.0.1:3"]}
  cheap: {model: n, backends: ["http://127.0.0.1:4"], usd_per_hour: 0.1, prefill_tokens_per_s: 100000, decode_tokens_per_s: 10000}
routes:
`
	const shared = "pools.b has the model and revision of another target"
	for route, want := range map[string][]string{
		"target: a": nil,
		"targets: [{pool: a, weight: 1}, {pool: cheap, weight: 1}]":           nil,
		"targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]":               {shared},
		"draft: d, targets: [{pool: a, weight: 1}, {pool: cheap, weight: 1}]": {"drafts cannot pay"},
	} {
		f, err := config.Parse("f", []byte(file+"  - {model: x, "+route+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := append(economyWarnings(f), targetWarnings(f)...)
		if len(got) != len(want) {
			t.Errorf("%s: %q", route, got)
			continue
		}
		for i, w := range want {
			if !strings.Contains(got[i], w) || !strings.HasPrefix(got[i], "route x: ") {
				t.Errorf("%s: warning %q, want %q", route, got[i], w)
			}
		}
	}
}
