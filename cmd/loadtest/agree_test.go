package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// rows are rows with these TTFTs, and so many requests each.
func rows(requests int, ttft ...float64) []reflect.Value {
	var out []reflect.Value
	for _, t := range ttft {
		out = append(out, reflect.ValueOf(loadtest.Row{Name: "x", Requests: requests, TTFT50: t}))
	}
	return out
}

func TestColumnsAgreeWithinTheNoiseOfTheSeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		live, virtual []reflect.Value
		ok            bool
		marked        string
	}{
		"the same":                  {rows(10, 100, 110, 120), rows(10, 100, 110, 120), true, ""},
		"within the noise":          {rows(10, 100, 110, 120), rows(10, 105, 115, 125), true, ""},
		"far from it":               {rows(10, 100, 110, 120), rows(10, 150, 160, 170), false, "ttft_p50_ms"},
		"a difference without any":  {rows(10, 100, 110, 120), rows(11, 100, 110, 120), false, "requests"},
		"zeros agree with anything": {rows(0, 0, 0), rows(0, 0, 0), true, ""},
	} {
		text, ok := compare(tc.live, tc.virtual)
		if ok != tc.ok {
			t.Errorf("%s: agree %v\n%s", name, ok, text)
		}
		for line := range strings.Lines(text) {
			if marked := strings.Contains(line, "differs"); marked != (tc.marked != "" && strings.Contains(line, tc.marked+" ")) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestOneSeedHasNoNoiseToCompareWith(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	if status, _, errs := program("agree", "small", "--seeds", "1"); status != 2 || !strings.Contains(errs, "want 2 to 100") {
		t.Errorf("status %d: %s", status, errs)
	}
}
