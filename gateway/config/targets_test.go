package config

import (
	"strings"
	"testing"
)

func TestTargetsThatCannotServeAreRefusedWithTheirLine(t *testing.T) {
	for route, want := range map[string]string{
		"target: a, targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]": "f:5:27: routes[0].targets: target is given as well",
		"targets: [{pool: a, weight: 1}]":                                  "f:5:16: routes[0].targets: has 1 entries; want 2 … 4",
		"targets: [{pool: a, weight: 1}, {pool: a, weight: 1}]":            "f:5:49: routes[0].targets[1].pool: is the same as routes[0].targets[0].pool; remove one",
		"targets: [{pool: a, weight: 1}, {pool: b}]":                       "f:5:48: routes[0].targets[1].weight: missing",
		"targets: [{pool: a, weight: 1}, {pool: b, weight: 0}]":            "f:5:58: routes[0].targets[1].weight",
		"targets: [{pool: a, weight: 1}, {pool: c, weight: 1}]":            `f:5:49: routes[0].targets[1].pool: pool "c" is not defined`,
		"draft: b, targets: [{pool: a, weight: 1}, {pool: b, weight: 1}]":  "f:5:59: routes[0].targets[1].pool: is the draft as well",
	} {
		_, err := Parse("f", []byte("pools:\n  a: {model: m, backends: [\"http://127.0.0.1:1\"]}\n  b: {model: n, backends: [\"http://127.0.0.1:2\"]}\nroutes:\n  - {model: x, "+route+"}\n"))
		if got := message(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", route, got, want)
		}
	}
}

func TestThePoolsOfARouteThatDraftsOrHasSeveralTargetsAreProbed(t *testing.T) {
	two := []WeightedTarget{{"b", 1}, {"c", 1}}
	for _, c := range []struct {
		route Route
		want  string
	}{
		{Route{Target: "a"}, ""},
		{Route{Draft: "d", Target: "a"}, "a d"},
		{Route{Target: "b", Targets: two}, "b c"},
		{Route{Draft: "d", Target: "b", Targets: two}, "b c d"},
	} {
		if got := strings.Join(c.route.ProbedPools(), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.route, got, c.want)
		}
	}
}
