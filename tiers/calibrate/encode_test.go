package calibrate

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
)

// someFit is a fit and its encoding.
func someFit(t testing.TB) (Fitted, string) {
	t.Helper()
	samples, _ := known.draw(rand.New(rand.NewPCG(1, 5)), MinSamples)
	f, err := Fit(samples)
	if err != nil {
		t.Fatal(err)
	}
	f.Map.Version = 7
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, string(data)
}

func TestAFitIsReadAsItWasWritten(t *testing.T) {
	f, data := someFit(t)
	t.Logf("%d bytes: %.200s …", len(data), data)
	got, err := Parse([]byte(data))
	if err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("%v: got %+v, want %+v", err, got, f)
	}
	var again Fitted
	if err := json.Unmarshal([]byte(data), &again); err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("%v: got %+v", err, again)
	}
}

func TestAFitOfTheFiveFormerFeaturesScoresAsItDid(t *testing.T) {
	f, data := someFit(t)
	for i := formerFeatures; i < features; i++ {
		from, _ := json.Marshal(f.Map.Weights[i])
		data = strings.Replace(data, `"`+accept.FeatureNames[i]+`":`+string(from), `"":0`, 1)
		data = strings.Replace(strings.Replace(data, `"":0,`, "", 1), `,"":0`, "", 1)
		f.Map.Weights[i] = 0
	}
	if got, err := Parse([]byte(data)); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("%v: got %+v, want %+v", err, got, f)
	}
	if _, err := Parse([]byte(strings.Replace(data, `"worst4"`, `"doubt"`, 1))); err == nil || !strings.Contains(err.Error(), "without a weight of worst4") {
		t.Errorf("five other features: %v", err)
	}
}

func TestAFitThatIsNotQuiteOneIsRefused(t *testing.T) {
	f, data := someFit(t)
	weight := func(to string) string {
		from, _ := json.Marshal(f.Map.Weights[0])
		return strings.Replace(data, `"mean":`+string(from)+`,`, to, 1)
	}
	for name, c := range map[string]struct{ data, says string }{
		"nothing":                  {"", "EOF"},
		"another format":           {strings.Replace(data, `"format":1`, `"format":2`, 1), "format 2, want 1"},
		"an unknown field":         {strings.Replace(data, `{"format"`, `{"extra":1,"format"`, 1), "unknown field"},
		"no bias":                  {strings.Replace(data, `"bias"`, `"Loss":0.5,"loss"`, 1), "without a bias"},
		"a negative weight":        {weight(`"mean":-0.1,`), "the weight of mean is -0.1"},
		"a weight above 1000":      {weight(`"mean":1001,`), "the weight of mean is 1001"},
		"a weight beyond numbers":  {weight(`"mean":1e999,`), "1e999"},
		"a weight of NaN":          {weight(`"mean":NaN,`), "invalid character"},
		"a weight of null":         {weight(`"mean":null,`), "without a weight of mean"},
		"a weight as text":         {weight(`"mean":"1",`), "without a weight of mean"},
		"an unknown feature":       {weight(`"median":1,`), "without a weight of mean"},
		"a feature too many":       {weight(`"mean":1,"median":1,`), "8 features, want 7"},
		"a feature too few":        {weight(``), "6 features, want 7"},
		"weights as a list":        {`{"format":1,"bias":1,"weights":[1,2,3,4,5,6,7]}`, "cannot unmarshal array"},
		"too few samples":          {strings.Replace(data, `"samples":500`, `"samples":499`, 1), "want 500 together"},
		"more samples than points": {strings.Replace(data, `"samples":500`, `"samples":501`, 1), "500 drafts of 501"},
		"a negative version":       {strings.Replace(data, `"version":7`, `"version":-1`, 1), "version -1"},
		"something behind it":      {data + `{}`, "follows the end"},
		"too much":                 {data + strings.Repeat(" ", maxBytes), "at most"},
	} {
		if c.data == data {
			t.Fatalf("%s: the test changed nothing", name)
		}
		if _, err := Parse([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
	}
}

func TestAFitThatIsNoneIsNotWritten(t *testing.T) {
	if _, err := json.Marshal(Fitted{}); err == nil {
		t.Error("a fit of nothing was written")
	} else if _, is := errors.AsType[*TooFewError](err); !is {
		t.Error(err)
	}
	f, _ := someFit(t)
	f.Map.Bias = math.NaN()
	if _, err := json.Marshal(f); err == nil {
		t.Error("a bias of NaN was written")
	}
}

func FuzzParse(f *testing.F) {
	_, data := someFit(f)
	f.Add([]byte(data))
	f.Add([]byte(strings.Replace(data, `"format":1`, `"format":1e0`, 1)))
	f.Add([]byte(`{"format":1,"bias":-1e300,"weights":{"mean":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fit, err := Parse(data)
		if err != nil {
			return
		}
		if err := fit.check(); err != nil {
			t.Fatalf("what was read is no fit: %v", err)
		}
		again, err := json.Marshal(fit)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if back, err := Parse(again); err != nil || !reflect.DeepEqual(back, fit) {
			t.Fatalf("%v: got %+v, want %+v", err, back, fit)
		}
		for _, x := range []float64{0, -1e4, 1e4} {
			s := float64(fit.Map.Score(accept.Features{x, x, x, x, x, x, x}))
			if !(math.Abs(s) < 1e9) {
				t.Fatalf("a score of %v", s)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	_, data := someFit(b)
	for b.Loop() {
		if _, err := Parse([]byte(data)); err != nil {
			b.Fatal(err)
		}
	}
}
