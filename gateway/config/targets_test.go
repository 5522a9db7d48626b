package config

import (
	"strings"
	"testing"
)

func TestTargetsThatCannotServeAreRefusedWithTheirLine(t *testing.T) {
	for route, want := range map[string]string{
		"target: a, targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]": "f:5: routes[0].targets: target is given as well",
		"targets: [{pool: a, weight: 1}]":                                  "f:5: routes[0].targets: there are 1; want 2 … 4",
		"targets: [{pool: a, weight: 1}, {pool: a, weight: 1}]":            "f:5: routes[0].targets[1].pool: routes[0].targets[0] is this pool already",
		"targets: [{pool: a, weight: 1}, {pool: b}]":                       "f:5: routes[0].targets[1].weight: missing",
		"targets: [{pool: a, weight: 1}, {pool: b, weight: 0}]":            "f:5: routes[0].targets[1].weight",
		"targets: [{pool: a, weight: 1}, {pool: c, weight: 1}]":            `f:5: routes[0].targets[1].pool: pool "c" is not defined`,
		"draft: b, targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]":  "f:5: routes[0].targets[1].pool: is the draft as well",
	} {
		_, err := Parse("f", []byte("pools:\n  a: {model: m, backends: [\"http://127.0.0.1:1\"]}\n  b: {model: n, backends: [\"http://127.0.0.1:2\"]}\nroutes:\n  - {model: x, "+route+"}\n"))
		if got := message(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", route, got, want)
		}
	}
}

func TestAMirrorThatCannotServeIsRefusedWithItsLine(t *testing.T) {
	for route, want := range map[string]string{
		"mirror: {pool: b}":                       "f:7: routes[0].mirror.share: missing",
		"mirror: {share: 0.1}":                    "f:7: routes[0].mirror.pool: missing",
		"mirror: {pool: b, share: 0}":             "f:7: routes[0].mirror.share",
		"mirror: {pool: b, share: 1.5}":           "f:7: routes[0].mirror.share",
		"mirror: {pool: a, share: 0.1}":           "f:7: routes[0].mirror.pool: is a target of this route as well",
		"mirror: {pool: c, share: 0.1}":           `f:7: routes[0].mirror.pool: pool "c" is not defined`,
		"draft: b, mirror: {pool: b, share: 0.1}": "f:7: routes[0].mirror.pool: is the draft as well",
		"mirror: {pool: paid, share: 0.1}":        "f:7: routes[0].mirror.pool: pool paid is paid by the token",
		"mirror: {pool: b, share: 0.1, x: 1}":     "f:7: routes[0].mirror.x: unknown field",
	} {
		_, err := Parse("f", []byte(`pools:
  a: {model: m, backends: ["http://127.0.0.1:1"]}
  b: {model: n, backends: ["http://127.0.0.1:2"]}
  paid: {model: n, backends: ["http://127.0.0.1:3"], usd_per_million_input: 1, usd_per_million_output: 1}
tenants: [{id: t, keys_sha256: [0000000000000000000000000000000000000000000000000000000000000000]}]
routes:
  - {model: x, target: a, `+route+`}
`))
		if got := message(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", route, got, want)
		}
	}
}

func TestThePoolsOfARouteThatDraftsOrComparesAreProbed(t *testing.T) {
	two := []WeightedTarget{{"b", 1}, {"c", 1}}
	for _, c := range []struct {
		route Route
		want  string
	}{
		{Route{Target: "a"}, ""},
		{Route{Draft: "d", Target: "a"}, "a d"},
		{Route{Target: "b", Targets: two}, "b c"},
		{Route{Draft: "d", Target: "b", Targets: two, Mirror: Mirror{Pool: "m"}}, "b c d m"},
		{Route{Target: "a", Mirror: Mirror{Pool: "m"}}, "a m"},
	} {
		if got := strings.Join(c.route.ProbedPools(), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.route, got, c.want)
		}
	}
}
