package pair

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
)

// Report is what a run found.
type Report struct {
	Time      time.Time `json:"time"`
	Requests  int       `json:"requests"` // of each way
	MaxTokens int       `json:"max_tokens"`
	Clients   int       `json:"clients"`
	Engines   []Engine  `json:"engines"`
	Measures  []Measure `json:"measures"`
	Ways      []Way     `json:"ways"`

	DraftPrice  Price `json:"draft_usd_per_million"`
	TargetPrice Price `json:"target_usd_per_million"`
}

// Engine is what the probe found of an engine. Where it runs is not told, because the page is made to be passed on.
type Engine struct {
	Pool      string `json:"pool"`
	Model     string `json:"model"`
	Scoring   string `json:"scoring"` // how it scores a given text, "": not at all
	Continues bool   `json:"continues"`
	Missing   []Lack `json:"missing,omitempty"`
}

// Lack is a capability that an engine does not have.
type Lack struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func newReport(o *Options, engines []gateway.EngineView) Report {
	return Report{
		Time: time.Now().UTC().Truncate(time.Second), Requests: o.Requests, MaxTokens: o.MaxTokens, Clients: o.Clients,
		Engines: engineReports(engines, o), DraftPrice: o.DraftPrice, TargetPrice: o.TargetPrice,
	}
}

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Markdown is the report as a page.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Foregate in front of %s\n\n", r.names())
	fmt.Fprintf(&b, "Measured by `loadtest proof-live` at %s: %d questions in each way, at temperature 0, at most %d tokens an answer, %d at a time.\n",
		r.Time.Format(time.RFC3339), r.Requests, r.MaxTokens, r.Clients)
	for _, table := range r.tables() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", table.title, table.about)
		for i, row := range table.rows {
			for j := range row {
				row[j] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(row[j])
			}
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
			if i == 0 {
				b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
			}
		}
	}
	return b.String()
}

// names are the models.
func (r *Report) names() string {
	models := map[string]string{}
	for _, e := range r.Engines {
		models[e.Pool] = e.Model
	}
	return fmt.Sprintf("%s (draft) and %s (target)", models[poolDraft], models[poolTarget])
}

// table is a table with its heading; the first row names the columns.
type table struct {
	title, about string
	rows         [][]string
}

func (r *Report) tables() []table {
	return []table{r.engineTable(), r.measureTable(), r.wayTable()}
}

func (r *Report) engineTable() table {
	t := table{title: "The engines", about: "What they can do, by asking them.", rows: [][]string{{"engine", "model", "finding", "why"}}}
	for _, e := range r.Engines {
		can := []string{"answers"}
		if e.Scoring != "" {
			can = append(can, "scores a given text ("+e.Scoring+")")
		}
		if e.Continues {
			can = append(can, "goes on from token ids")
		}
		t.rows = append(t.rows, []string{e.Pool, e.Model, strings.Join(can, ", "), ""})
		for _, l := range e.Missing {
			t.rows = append(t.rows, []string{e.Pool, e.Model, "lacks " + l.Name, l.Reason})
		}
	}
	return t
}

func (r *Report) measureTable() table {
	t := table{
		title: "What was measured", about: "± is the standard error. The last column says why a figure is empty, or why it has fewer samples.",
		rows: [][]string{{"measure", "figure", "samples", "why not"}},
	}
	for _, m := range r.Measures {
		figure, of := "", ""
		if m.Value != nil {
			figure, of = strconv.FormatFloat(*m.Value, 'f', 3, 64), strconv.Itoa(m.Of)
		}
		if m.Error > 0 {
			figure += fmt.Sprintf(" ± %.3f", m.Error)
		}
		t.rows = append(t.rows, []string{m.Name, figure, of, m.Why})
	}
	return t
}

// reasons are what the gateway said of the drafts, the most frequent first.
func (w *Way) reasons() string {
	names := slices.SortedFunc(maps.Keys(w.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.Reasons[b], w.Reasons[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", w.Reasons[name], name)
	}
	return strings.Join(names, ", ")
}

func (r *Report) wayTable() table {
	t := table{
		title: "Each way to answer",
		about: "Exact: answers that are byte for byte what the target said alone. Times to the first token (TTFT) and to the end (E2E) " +
			"in milliseconds; tokens of all answers. Mode confidence has the median score as its threshold.",
		rows: [][]string{{"way", "answers", "draft", "mixed", "target", "exact", "TTFT p50", "p95", "E2E p50",
			"draft in", "draft out", "target in", "target out", "scored", "USD", "remarks"}},
	}
	for i := range r.Ways {
		t.rows = append(t.rows, r.Ways[i].cells(len(t.rows[0])))
	}
	return t
}

// cells is the row of a way, of so many columns.
func (w *Way) cells(columns int) []string {
	if w.Answers == 0 {
		row := make([]string, columns)
		row[0], row[columns-1] = w.Name, orElse(w.Why, w.Failure)
		return row
	}
	row := []string{w.Name}
	for _, n := range []int{w.Answers, w.Draft, w.Mixed, w.Target} {
		row = append(row, strconv.Itoa(n))
	}
	row = append(row, fmt.Sprintf("%d of %d", w.Exact, w.Compared))
	for _, ms := range []float64{w.TTFT50, w.TTFT95, w.E2E50} {
		row = append(row, strconv.FormatFloat(ms, 'f', 0, 64))
	}
	usd := ""
	if w.USD != nil {
		usd = strconv.FormatFloat(*w.USD, 'g', 4, 64)
	}
	for _, n := range []int{w.Work.DraftInput, w.Work.DraftOutput, w.Work.TargetInput, w.Work.TargetOutput, w.Work.Scored} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, usd, w.remarks())
}

// remarks are what the last column says of a way with answers.
func (w *Way) remarks() string {
	var all []string
	for _, text := range []string{w.Why, w.reasons()} {
		if text != "" {
			all = append(all, text)
		}
	}
	if w.Failed > 0 {
		all = append(all, fmt.Sprintf("%d failed: %s", w.Failed, w.Failure))
	}
	return strings.Join(all, "; ")
}
