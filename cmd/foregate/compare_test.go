package main

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/compare/shared"
)

func TestTheCompareCommandSaysThatACandidateIsWorseAndForgets(t *testing.T) {
	t.Setenv("FOREGATE_REDIS", "")
	s := redistest.Start(t)
	store := shared.New(shared.Options{Client: s.Client})
	pair := compare.Pair{Route: "chat", Kind: compare.Canary, Incumbent: "old", Candidate: "new", Shares: [2]float64{0.95, 0.05}}
	mirror := compare.Pair{Route: "chat", Kind: compare.Mirror, Incumbent: "old", Candidate: "new", Shares: [2]float64{1, 0.02}}
	store.AddMirror(mirror, 7, 8, 0.5, "")
	for i := range 300 {
		store.AddOpinion(pair, compare.Incumbent, i%20 != 0)
		store.AddOpinion(pair, compare.Candidate, i%2 != 0)
		store.AddAnswer(pair, compare.Answer{Total: time.Second, Tokens: 10})
	}
	if err := store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := "redis://" + s.Addr + "/0"
	for _, c := range []struct{ args, want string }{
		{"compare", "chat: incumbent old, candidate new as canary of 5 %"},
		{"compare", "chat: incumbent old, candidate new as mirror of 2 %"},
		{"compare chat", "agreement       0.95       0.5"},
		{"compare --json", `"verdict": "worse"`},
		{"compare code", "nothing was compared yet"},
		{"compare chat --reset", "forgot chat: incumbent old, candidate new"},
		{"compare chat", "nothing was compared yet"},
	} {
		status, out, errs := call(t, append(strings.Fields(c.args), "--redis", url)...)
		if status != 0 || errs != "" || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d: %s%s", c.args, status, out, errs)
		}
	}
	if status, _, errs := call(t, "compare", "--reset", "--redis", url); status != 1 || !strings.Contains(errs, "name the route") {
		t.Errorf("a reset of all: status %d: %s", status, errs)
	}
}
