package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Total is the name of the row that is of all routes.
const Total = "all routes"

// Row sets what was beside what would have been, for the requests of one route.
type Row struct {
	Route    string `json:"route"`
	Requests int    `json:"requests"` // that the cascade answered
	Others   int    `json:"others"`   // from the cache, passed through, or without an answer: they are in no figure
	Changed  int    `json:"changed"`  // for which something would have been otherwise, or may have
	Unknown  int    `json:"unknown"`  // of them, whose receipts cannot tell what would have become of the draft

	Skipped       Count `json:"skipped"`   // not drafted
	Accepted      Count `json:"accepted"`  // the draft is the answer
	Rejected      Count `json:"rejected"`  // before any of it was released
	TakenOver     Count `json:"takeovers"` // in mid-answer
	TargetChecked Count `json:"asked"`     // about which the target was asked
	Share         Pair  `json:"draft_share"`

	USD      Pair `json:"usd"`      // of those whose receipts tell enough
	Unpriced int  `json:"unpriced"` // of the others
	First    Pair `json:"first_ms"` // mean of those whose receipts tell enough
	Untimed  int  `json:"untimed"`  // of the others

	drafted, answered      float64 // tokens, as it was
	minDrafted, maxDrafted float64 // tokens of drafts, as it would be
}

// Count is a number of requests.
type Count struct {
	Was int `json:"was"`
	Min int `json:"least"`
	Max int `json:"most"`
}

// Pair is a quantity.
type Pair struct {
	Was   float64 `json:"was"`
	Would Range   `json:"would"`
}

// Compare replays receipts under other settings: a row for each route by its name, and one
// for all where there are several.
func Compare(list []Receipt, c *Change) []Row {
	rows := map[string]*Row{}
	total := &Row{Route: Total}
	for i := range list {
		r := &list[i]
		row := rows[r.Route]
		if row == nil {
			row = &Row{Route: r.Route}
			rows[r.Route] = row
		}
		if r.Plan == nil || r.Error != "" || r.Code >= 400 || r.Rules == nil {
			row.Others++
			total.Others++
			continue
		}
		ways := c.ways(r)
		row.add(r, ways)
		total.add(r, ways)
	}
	var out []Row
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, *rows[name])
	}
	if len(out) != 1 {
		out = append(out, *total)
	}
	for i := range out {
		out[i].finish()
	}
	return out
}

// add counts one request.
func (w *Row) add(r *Receipt, ways []branch) {
	as := asItWas(r)
	w.Requests++
	if len(ways) > 1 || ways[0] != as {
		w.Changed++
	}
	var may Fate
	for _, b := range ways {
		may |= b.fate
	}
	for _, f := range []struct {
		fate Fate
		at   *Count
	}{{Skipped, &w.Skipped}, {Accepted, &w.Accepted}, {Rejected, &w.Rejected}, {TakenOver, &w.TakenOver}} {
		f.at.add(as.fate == f.fate, may == f.fate, may&f.fate != 0)
	}
	if may&(may-1) != 0 {
		w.Unknown++
	}
	asked := func(b branch) bool { return b.targetChecked }
	unasked := func(b branch) bool { return !b.targetChecked }
	w.TargetChecked.add(as.targetChecked, !slices.ContainsFunc(ways, unasked), slices.ContainsFunc(ways, asked))

	length := float64(r.Tokens.Accepted + r.Tokens.Target)
	kept := nothing()
	for _, b := range ways {
		kept.widen(min(float64(b.kept.lo), length), min(float64(b.kept.hi), length))
	}
	w.answered += length
	w.drafted += float64(r.Tokens.Accepted)
	w.minDrafted += kept.Min
	w.maxDrafted += kept.Max

	if cost, ok := over(ways, func(b branch) (Range, bool) { return usd(r, b) }); ok {
		spent, _ := usd(r, asItWas(r))
		w.USD.add(spent.Min, cost)
	} else {
		w.Unpriced++
	}
	if ms, ok := over(ways, func(b branch) (Range, bool) { return first(r, b) }); ok {
		w.First.add(r.MS.First, ms)
	} else {
		w.Untimed++
	}
}

// over is the range over all ways, where there is one for each.
func over(ways []branch, of func(branch) (Range, bool)) (all Range, ok bool) {
	all = nothing()
	for _, b := range ways {
		one, ok := of(b)
		if !ok {
			return all, false
		}
		all.widen(one.Min, one.Max)
	}
	return all, true
}

func (c *Count) add(was, surely, maybe bool) {
	for at, yes := range map[*int]bool{&c.Was: was, &c.Min: surely, &c.Max: maybe} {
		if yes {
			*at++
		}
	}
}

func (p *Pair) add(was float64, would Range) {
	p.Was += was
	p.Would.Min += would.Min
	p.Would.Max += would.Max
}

// finish turns sums into shares and means.
func (w *Row) finish() {
	if w.answered > 0 {
		w.Share = Pair{w.drafted / w.answered, Range{w.minDrafted / w.answered, w.maxDrafted / w.answered}}
	}
	if n := float64(w.Requests - w.Untimed); n > 0 {
		w.First = Pair{w.First.Was / n, Range{w.First.Would.Min / n, w.First.Would.Max / n}}
	}
}

// Text prints rows for people.
func Text(rows []Row) string {
	var b strings.Builder
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "%s: %d requests", r.Route, r.Requests)
		if r.Others > 0 {
			fmt.Fprintf(&b, ", and %d from the cache, passed through or without an answer", r.Others)
		}
		fmt.Fprintf(&b, "; %d may differ, %d of them cannot be told\n\n", r.Changed, r.Unknown)
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
		line := func(name, was, would string) { _, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t\n", name, was, would) } // memory takes everything
		line("", "as it was", "as it would be")
		for _, c := range []struct {
			name string
			Count
		}{{"not drafted", r.Skipped}, {"accepted", r.Accepted}, {"rejected", r.Rejected}, {"taken over", r.TakenOver}, {"asked about", r.TargetChecked}} {
			line(c.name, fmt.Sprint(c.Was), between(Range{float64(c.Min), float64(c.Max)}, "%.0f"))
		}
		line("draft tokens, %", fmt.Sprintf("%.1f", 100*r.Share.Was), between(Range{100 * r.Share.Would.Min, 100 * r.Share.Would.Max}, "%.1f"))
		line(short("USD", r.Unpriced), fmt.Sprintf("%.6f", r.USD.Was), between(r.USD.Would, "%.6f"))
		line(short("first byte, mean ms", r.Untimed), fmt.Sprintf("%.0f", r.First.Was), between(r.First.Would, "%.0f"))
		_ = t.Flush() // as above
		b.WriteByte('\n')
	}
	return b.String()
}

// short says of how many requests a figure is not.
func short(name string, missing int) string {
	if missing == 0 {
		return name
	}
	return fmt.Sprintf("%s (without %d that cannot be told)", name, missing)
}

// between prints a range, as one number where it is one.
func between(r Range, format string) string {
	minimum, maximum := fmt.Sprintf(format, r.Min), fmt.Sprintf(format, r.Max)
	if minimum == maximum || math.IsInf(r.Min, 0) {
		return minimum
	}
	return minimum + " … " + maximum
}
