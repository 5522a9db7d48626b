package main

import (
	"strings"
	"testing"
)

// goodAudit is a line as export writes it.
const goodAudit = `{"route":"chat","traffic_class":"to_1k.0a1b2c3d","when":"2026-01-02T03:04:05.678Z","ticket":"T-1","score":-0.25,"floor":-0.5,"threshold":1000000000,"chance":0.05,"served":false,"features":[-0.25,-1,-0.5,-2,-4],"tokens":80,"grid":1700000000000000,"alarm":0,"label":"lost","request":"0a1b"}`

func TestWhatIsNoAuditIsRefusedByLineAndField(t *testing.T) {
	const numbers, counts = "line 2: score, floor, threshold, features: want numbers from -1e9 to 1e9", "line 2: tokens, grid, alarm: want counts"
	for old, tc := range map[string]struct{ with, want string }{
		`"score":-0.25`:   {`"score":NaN`, "line 2: invalid character 'N' looking for beginning of value"},
		`"floor":-0.5`:    {`"floor":-1e10`, numbers},
		`"chance":0`:      {`"chance":2`, "line 2: chance: want a probability"},
		`"served":false`:  {`"served":0`, "line 2: json: cannot unmarshal number into Go struct field LogEntry.served of type bool"},
		`"tokens":80`:     {`"tokens":-1`, counts},
		`"label":"lost`:   {`"label":"fine`, "line 2: label: want good, bad or lost"},
		`"ticket":"T-1"`:  {`"ticket":"T 1"`, "line 2: ticket, request: want 1 to 64 letters, digits and hyphens"},
		`"route":"chat"`:  {`"route":"ch\u0007at"`, `line 2: risk: route "ch\aat" is not 1 to 256 printable bytes`},
		`.0a1b2c3d"`:      {`.0a1b2c3d-v3"`, "line 2: traffic_class: it is of the fitted score 3, which only its own fleet has"},
		`"2026-01-02`:     {`"1026-01-02`, "line 2: when: want a time such as 2006-01-02T15:04:05Z"},
		`"score":-0.25,`:  {``, "line 2: score: is missing"},
		`-0.5,"thr`:       {`null,"thr`, "line 2: floor: is missing"},
		`,"label":"lost"`: {``, "line 2: label: want good, bad or lost"},
		`"tokens":80,`:    {`"tokens":80,"more":80,`, `line 2: json: unknown field "more"`},
	} {
		line := strings.Replace(goodAudit, old, tc.with, 1)
		if line == goodAudit {
			t.Fatalf("%s is not in the line", old)
		}
		if batches, err := readAudits(strings.NewReader(goodAudit+"\n"+line+"\n"), ""); err == nil || err.Error() != tc.want || len(batches) != 0 {
			t.Errorf("%s: %v, want %s", old, err, tc.want)
		}
	}
}
