package usage

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
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

func TestEveryCountHasAColumnOfItsOwn(t *testing.T) {
	var c Counts
	if n := reflect.TypeFor[Counts]().NumField(); n != numColumns {
		t.Fatalf("%d fields, %d columns", n, numColumns)
	}
	for i, n := range c.columns() {
		*n = int64(i + 1)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).Int() != int64(i+1) {
			t.Errorf("%s is not column %d", v.Type().Field(i).Name, i)
		}
	}
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

func TestCountsOfOtherVersionsAreRead(t *testing.T) {
	if c, err := decode("3 2"); err != nil || c != (Counts{Requests: 3, OK: 2}) {
		t.Errorf("an earlier version: %+v, %v", c, err)
	}
	if c, err := decode(strings.Repeat("1 ", numColumns+2) + "1"); err != nil || c.Requests != 1 || c.CacheSaved != 1 {
		t.Errorf("a later version: %+v, %v", c, err)
	}
	for _, bad := range []string{"", " ", "x", "1  2", "1.5", "9007199254740992", "-9007199254740992", "1e3", strings.Repeat("1 ", maxValue)} {
		if c, err := decode(bad); err == nil {
			t.Errorf("%.40q is read as %+v", bad, c)
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

func TestSumsStayInTheirBounds(t *testing.T) {
	c, big := Counts{}, Counts{Requests: maxNumber, DraftsSaved: -maxNumber}
	c.Add(&big)
	c.Add(&big)
	if c != big {
		t.Errorf("%+v", c)
	}
}
