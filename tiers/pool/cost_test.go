package pool

import (
	"math"
	"testing"
	"time"
)

func TestARequestCostsItsShareOfTheBackend(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p, err := New(Options{Name: "p", Model: "m", Backends: []string{"http://127.0.0.1:1"}, USDPerHour: 3600, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	pick := func() *Lease {
		l, err := p.pick(Demand{PromptTokens: 10, OutputTokens: 10})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	one := pick()
	now = now.Add(2 * time.Second)
	other := pick()
	for _, c := range []struct {
		what string
		l    *Lease
		want float64
	}{
		{"two seconds, the backend shared with one other at the end", one, 1},
		{"the same lease again", one, 0},
		{"no time at all", other, 0},
	} {
		if got := c.l.Done(5); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: $%g, want $%g", c.what, got, c.want)
		}
	}
}
