package usage

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// some returns counts with a random number in every column.
func some(r *rand.Rand) (c Counts) {
	for _, n := range c.columns() {
		*n = r.Int64N(1_000_000)
	}
	c.Requests = 1 + r.Int64N(9)
	return c
}

func TestCountsAreReadAsTheyAreWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		c := some(r)
		c.DraftsSaved = -c.DraftsSaved
		got, err := decode(c.encode())
		if err != nil || got != c {
			t.Fatalf("%+v: %+v, %v", c, got, err)
		}
	}
}

func FuzzFieldsOfRedis(f *testing.F) {
	f.Add("r|acme|llama-3", "1 2 3")
	f.Add("o|0123456789abcdef|acme|a|b", "9007199254740991 -1")
	f.Add("p|0123456789abcdef", "7")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, field, value string) {
		s := sum{query: Query{By: []Dimension{ByDay, ByRoute, ByTenant}}, rows: map[group]*Counts{}}
		s.addHash(20780, map[string]string{field: value})
		for g, c := range s.rows {
			if len(g.tenant)+len(g.route) > maxName {
				t.Errorf("a name of %d bytes", len(g.tenant)+len(g.route))
			}
			again, err := decode(c.encode())
			if err != nil || again != *c {
				t.Errorf("%q: %+v is not written as it was read: %v", value, c, err)
			}
		}
		report := Report{By: s.query.By}
		s.fill(&report)
		if b, err := json.Marshal(&report); err != nil || !json.Valid(b) {
			t.Errorf("%s, %v", b, err)
		}
		var text strings.Builder
		if err := report.WriteCSV(&text); err != nil {
			t.Error(err)
		}
	})
}

func FuzzAmounts(f *testing.F) {
	f.Add("0.000000001")
	f.Add("-12.5")
	f.Fuzz(func(t *testing.T, text string) {
		var n Nanos
		if json.Unmarshal([]byte(text), &n) != nil {
			return
		}
		b, err := json.Marshal(n)
		var again Nanos
		if err != nil || json.Unmarshal(b, &again) != nil || again != n {
			t.Errorf("%q: %d is written as %s: %d, %v", text, n, b, again, err)
		}
	})
}

func TestAmountsAreExactDecimals(t *testing.T) {
	for n, want := range map[Nanos]string{0: "0", 1: "0.000000001", -1: "-0.000000001", 1_500_000_000: "1.5", -12_000_000_000: "-12", maxNumber: "9007199.254740991"} {
		b, err := json.Marshal(n)
		var again Nanos
		if err != nil || string(b) != want || json.Unmarshal(b, &again) != nil || again != n {
			t.Errorf("%d: %s, %v; again %d", int64(n), b, err, int64(again))
		}
	}
	for usd, want := range map[float64]Nanos{0.1: 100_000_000, 1e-10: 0, 6e-10: 1, -0.25: -250_000_000, math.Inf(1): 1e15, math.Inf(-1): -1e15, math.NaN(): 0} {
		if got := NanosOf(usd); got != want {
			t.Errorf("%v: %d, not %d", usd, int64(got), int64(want))
		}
	}
}
