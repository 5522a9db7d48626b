package pair

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// Report is what a run found.
type Report struct {
	Name      string     `json:"name"`
	Build     string     `json:"build,omitempty"`
	Requests  int        `json:"requests"` // questions
	MaxTokens int        `json:"max_tokens"`
	Clients   int        `json:"clients"`
	Engines   []Engine   `json:"engines"`
	Evidence  []Evidence `json:"evidence"`
	Guarantee *Guarantee `json:"guarantee"` // null: not reached
	Truth     []Truth    `json:"truth"`
	Ways      []Way      `json:"ways"`

	DraftPrice  Price  `json:"draft_usd_per_million"`
	TargetPrice Price  `json:"target_usd_per_million"`
	NoCosts     string `json:"no_costs,omitempty"` // why ways have no dollars
}

// Engine is what the probe found of an engine. Where it runs is not told, because the page is made to be passed on.
type Engine struct {
	Pool      string `json:"pool"`
	Model     string `json:"model"`
	Version   string `json:"version,omitempty"` // as its answers say: system_fingerprint
	Scoring   string `json:"scoring"`           // how it scores a given text, "": not at all
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
		Name: o.Name, Build: o.Build, Requests: o.Requests, MaxTokens: o.MaxTokens, Clients: o.Clients,
		Engines: engineReports(engines, o), DraftPrice: o.DraftPrice, TargetPrice: o.TargetPrice,
	}
}

// Reports are of several pairs.
type Reports []*Report

// JSON is the reports for programs.
func (rs Reports) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(rs, "", " ")
	return append(text, '\n'), err
}

// Markdown is the reports as a page.
func (rs Reports) Markdown() string {
	var b strings.Builder
	b.WriteString("# Foregate in front of real pairs\n\n" + rs.About() + "\n")
	for _, t := range rs.allTables() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", t.Title, t.About)
		for i, row := range t.Rows {
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

// About says how the pairs were asked.
func (rs Reports) About() string {
	var lines []string
	for _, r := range rs {
		models := fmt.Sprintf("%s (draft) and %s (target)", r.model(poolDraft), r.model(poolTarget))
		lines = append(lines, fmt.Sprintf("- %s: %s; %d questions at temperature 0, at most %d tokens an answer, %d at a time.", r.name(), strings.Join(slices.DeleteFunc([]string{models, r.Build}, func(s string) bool { return s == "" }), "; "), r.Requests, r.MaxTokens, r.Clients))
	}
	return strings.Join(lines, "\n")
}

// name is that of the pair, without one the models.
func (r *Report) name() string {
	return orElse(r.Name, r.model(poolDraft)+" before "+r.model(poolTarget))
}

// model is that of a pool.
func (r *Report) model(pool string) string {
	for _, e := range r.Engines {
		if e.Pool == pool {
			return e.Model
		}
	}
	return ""
}

// Table is a table with its heading; the first row names the columns.
type Table struct {
	Title, About string
	Rows         [][]string
}

// allTables are those of all pairs, and then those of each.
func (rs Reports) allTables() []Table {
	all := rs.Tables()
	for _, r := range rs {
		all = append(all, r.engineTable(), r.wayTable())
	}
	return all
}

func (r *Report) engineTable() Table {
	t := Table{Title: r.name() + ": the engines", About: "What they can do, by asking them.", Rows: [][]string{{"engine", "model", "finding", "why, or version"}}}
	for _, e := range r.Engines {
		can := []string{"answers"}
		if e.Scoring != "" {
			can = append(can, "scores a given text ("+e.Scoring+")")
		}
		if e.Continues {
			can = append(can, "goes on from token ids")
		}
		t.Rows = append(t.Rows, []string{e.Pool, e.Model, strings.Join(can, ", "), e.Version})
		for _, l := range e.Missing {
			t.Rows = append(t.Rows, []string{e.Pool, e.Model, "lacks " + l.Name, l.Reason})
		}
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

func (r *Report) wayTable() Table {
	t := Table{
		Title: r.name() + ": each way to answer",
		About: "Exact: answers that are byte for byte what the target said alone. Times to the first token (TTFT) and to the end (E2E) " +
			"in milliseconds; tokens of all answers. Dollars without audits" + strings.TrimSuffix(": "+r.NoCosts, ": ") + ".",
		Rows: [][]string{{"way", "answers", "answers/s", "draft", "mixed", "target", "exact", "TTFT p50", "p95", "E2E p50",
			"draft in", "draft out", "target in", "target out", "scored", "USD", "remarks"}},
	}
	for i := range r.Ways {
		t.Rows = append(t.Rows, r.Ways[i].cells(len(t.Rows[0])))
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
	row := []string{w.Name, strconv.Itoa(w.Answers), fmt.Sprintf("%.2f", float64(w.Answers)/max(w.Seconds, .001))}
	for _, n := range []int{w.Draft, w.Mixed, w.Target} {
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
