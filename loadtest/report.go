package loadtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// The kinds of run that a [Report] is of.
const (
	Live    = "live"    // the gateway over HTTP, in real or hastened time
	Virtual = "virtual" // the gateway's decisions in computed time
)

// Report is what a run of a scenario ends in.
type Report struct {
	Scenario *Scenario
	Seed     uint64
	Kind     string // Live or Virtual
	Command  string // that repeats it; "" is not told
	Results  []*Result
	Notes    []string // what a reader must know to trust the numbers
}

// JSON is the report's rows, for machines.
func (r *Report) JSON() ([]byte, error) {
	doc := struct {
		Scenario string `json:"scenario"`
		Seed     uint64 `json:"seed"`
		Kind     string `json:"kind"`
		Rows     []Row  `json:"rows"`
	}{r.name(), r.Seed, r.Kind, []Row{}}
	for _, res := range r.Results {
		doc.Rows = append(doc.Rows, res.Row())
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

func (r *Report) name() string {
	if r.Scenario == nil {
		return ""
	}
	return r.Scenario.Name
}

func (r *Report) about() string {
	if r.Scenario == nil {
		return ""
	}
	return r.Scenario.About
}

// measured is one case with all that is known of it, read once.
type measured struct {
	summary
	Row
	result *Result
}

func (r *Report) measured() []measured {
	out := []measured{}
	for _, res := range r.Results {
		s := res.Recorder.summary()
		out = append(out, measured{summary: s, Row: res.row(s), result: res})
	}
	return out
}

// column is a column of a row, which is a line of the table.
type column struct {
	section, name string
	unit          unit
	of            func(m *measured) float64
	base          func(m *measured) int // what a share is of; where it is 0 there is nothing to tell. nil is always
	optional      bool                  // it is told where some case has it
}

// columns are the lines of a table, as the tags of [Row] say: section, name, unit and what it is of; "?" is one that is told
// where some case has it.
var columns = func() []column {
	all := []column{
		{section: "Load", name: "Answered", of: func(m *measured) float64 { return float64(m.Answered) }},
		{section: "Cache and memory", name: "KV usage, peak", unit: percent, of: func(m *measured) float64 { return finite(m.result.PeakKV) }},
	}
	row := reflect.TypeFor[Row]()
	for i := range row.NumField() {
		words := strings.Split(row.Field(i).Tag.Get("table"), "|")
		if len(words) != 4 {
			continue
		}
		all = append(all, column{
			section: words[0], name: words[1], unit: unit(words[2]), base: bases[words[3]], optional: words[3] == "?",
			of: func(m *measured) float64 {
				if v := reflect.ValueOf(m.Row).Field(i); v.CanInt() {
					return float64(v.Int())
				} else {
					return v.Float()
				}
			},
		})
	}
	return all
}()

var bases = map[string]func(m *measured) int{
	"answered":  func(m *measured) int { return m.Answered },
	"delivered": func(m *measured) int { return m.DraftTokens + m.TargetTokens },
	"judged":    func(m *measured) int { return m.Accepted + m.Rejected },
	"accepts":   func(m *measured) int { return m.CheckedAccepts },
	"checked":   func(m *measured) int { return m.Checked },
	"high":      func(m *measured) int { return m.requests("high") },
	"low":       func(m *measured) int { return m.requests("low") },
	"queried": func(m *measured) (n int) {
		for _, u := range m.result.Pools {
			n += u.PrefixQueries
		}
		return n
	},
}

// requests is how many a priority had.
func (m *measured) requests(priority string) int {
	for _, g := range m.Priorities {
		if g.Name == priority {
			return g.Requests
		}
	}
	return 0
}

// text is the column of one case, as it is printed.
func (c *column) text(m *measured) string {
	if c.base != nil && c.base(m) == 0 {
		return "–"
	}
	return c.unit.text(c.of(m))
}

// ratio is the column of one case beside the first's, as it is printed; "" where
// it says nothing.
func (c *column) ratio(m, first *measured) string {
	if c.base != nil && (c.base(m) == 0 || c.base(first) == 0) {
		return ""
	}
	return times(c.of(m), c.of(first))
}

// sections are the parts of a table, in order.
var sections = []string{"Load", "Latency", "Priorities", "Cache and memory", "Money", "Acceptance and quality", "All answers, all of the rent", "Promise"}

// linesOf are the lines of a section of a table of these cases. A promise that nobody makes has none.
func linesOf(section string, cases []measured) (out []column) {
	if section == "Promise" && !slices.ContainsFunc(cases, func(m measured) bool { return m.result.Promise != nil }) {
		return nil
	}
	for _, c := range columns {
		if c.section == section && (!c.optional || slices.ContainsFunc(cases, func(m measured) bool { return c.of(&m) > 0 })) {
			out = append(out, c)
		}
	}
	return out
}
