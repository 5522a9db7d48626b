package pair

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Tables are the figures of all pairs beside each other.
func (rs Reports) Tables() []Table {
	return []Table{rs.scoreTable(), rs.kindTable(), rs.rateTable(), rs.guaranteeTable(), rs.truthTable()}
}

// evidences calls a function for each label of each pair, in order.
func (rs Reports) evidences(visit func(r *Report, e *Evidence)) {
	for _, r := range rs {
		for i := range r.Evidence {
			visit(r, &r.Evidence[i])
		}
	}
}

func (rs Reports) scoreTable() Table {
	t := Table{
		Title: "Scores",
		About: "Label *lenient*: the target scores the draft's tokens and stands by them (the default of `risk.label`); *same answer*: its own answer, asked alone, says the same. " +
			"AUROC: the probability that a draft that it stands by scores higher than another; 0.5 is chance, ± the standard error. *plain score* is the gateway's before it has fitted one; the best other is the best of its seven parts, chosen by these figures.",
		Rows: [][]string{{"pair", "label", "drafts", "the target stands by", "AUROC of the plain score", "best other score", "fitted score, cross-validated", "remarks"}},
	}
	rs.evidences(func(r *Report, e *Evidence) {
		plain, best, fitted := "", "", ""
		parts := slices.Clone(e.Areas)
		slices.SortStableFunc(parts, func(a, b Area) int { return cmp.Compare(b.AUROC, a.AUROC) })
		for i := range parts {
			switch a := &parts[i]; {
			case a.Score == scorePlain:
				plain = a.text()
			case a.Score == scoreFitted:
				fitted = a.text()
			case best == "":
				best = a.Score + ": " + a.text()
			}
		}
		t.Rows = append(t.Rows, []string{r.name(), e.Label, strconv.Itoa(e.Audits), proportion(e.Good, e.Audits).text(), plain, best, fitted, e.Why})
	})
	return t
}

func (a *Area) text() string { return fmt.Sprintf("%.3f ± %.3f", a.AUROC, a.Error) }

// kindTable says by how many drafts of each kind of question the target stands.
func (rs Reports) kindTable() Table {
	head := []string{"kind of question"}
	cells, names := map[string][]string{}, []string{}
	rs.evidences(func(r *Report, e *Evidence) {
		if e.Audits == 0 || e.Label != r.Evidence[0].Label && r.Evidence[0].Audits > 0 {
			return // of each pair the first label that it has
		}
		head = append(head, r.name()+", "+e.Label)
		for i := range e.Kinds {
			k := &e.Kinds[i]
			if cells[k.Name] == nil {
				names = append(names, k.Name)
			}
			for len(cells[k.Name]) < len(head)-2 {
				cells[k.Name] = append(cells[k.Name], "")
			}
			cells[k.Name] = append(cells[k.Name], fmt.Sprintf("%.2f of %d", float64(k.Good)/float64(k.Audits), k.Audits))
		}
	})
	t := Table{Title: "Agreement by kind of question", About: "The share of drafts that the target stands by. A gateway tells kinds apart where they are routes of their own.", Rows: [][]string{head}}
	for _, name := range names {
		row := append([]string{name}, cells[name]...)
		for len(row) < len(head) {
			row = append(row, "")
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (rs Reports) rateTable() Table {
	t := Table{
		Title: "Drafts served unchecked",
		About: fmt.Sprintf("What mode `risk` makes of these drafts, δ = .05, computed by the gateway's own functions. *Certified*, *expected*: what `foregate risk show --frontier` tells of these audits, the thresholds being placed by the first 200 scores: "+
			"shares of all drafts. *Replay*: the drafts in %d random orders, each audited until a first threshold is certified; the rest is served by that. Requests: those until then, of which half are drafted in the background. Orders share their drafts, so their counts are no independent trials.", replayOrders),
		Rows: [][]string{{"pair", "label", "ε", "certified", "expected", "more audits for that", "replay: certified", "audits", "requests", "served of the rest", "disagreed of the served", "orders above ε"}},
	}
	rs.evidences(func(r *Report, e *Evidence) {
		for i := range e.Replays {
			p, row := &e.Replays[i], []string{r.name(), e.Label}
			row = append(row, fmt.Sprintf("%.2f", p.MaxDisagreement))
			row = append(row, e.pointCells(p.MaxDisagreement)...)
			row = append(row, fmt.Sprintf("%d of %d", p.Certified, p.Orders))
			if p.Certified == 0 {
				t.Rows = append(t.Rows, append(row, "", "", "", "", ""))
				continue
			}
			served := proportion(p.Served, p.Drafts)
			disagreed := ""
			if p.Served > 0 {
				disagreed = fmt.Sprintf("%.1f %%", 100*float64(p.Bad)/float64(p.Served))
			}
			t.Rows = append(t.Rows, append(row, strconv.Itoa(p.Audits), strconv.Itoa(p.Requests), fmt.Sprintf("%.1f %%", 100*served.share()), disagreed, strconv.Itoa(p.Exceeded)))
		}
	})
	return t
}

// pointCells are what the frontier tells of an ε.
func (e *Evidence) pointCells(rate float64) []string {
	for i := range e.Points {
		p := &e.Points[i]
		if p.MaxDisagreement != rate {
			continue
		}
		more := "not expected"
		if p.MoreAudits != nil {
			more = fmt.Sprintf("%.0f", *p.MoreAudits)
		}
		return []string{fmt.Sprintf("%.2f", p.Certified), fmt.Sprintf("%.2f (%.2f … %.2f)", p.Expected.Estimate, p.Expected.Low, p.Expected.High), more}
	}
	return []string{"", "", ""}
}

func (rs Reports) guaranteeTable() Table {
	t := Table{
		Title: "The guarantee through the gateway",
		About: "The audits of the first questions are imported (`foregate risk import`): of half of them, or of 210. Then mode `risk` answers the others, at the smallest ε of .05, .1, .2, .3 and .5 for which they certify a threshold. " +
			"Of each served draft the target is asked, too: *disagreed*, with its interval of 95 %.",
		Rows: [][]string{{"pair", "label", "ε", "audits", "requests", "served unchecked", "disagreed of these", "the bound", "remarks"}},
	}
	for _, r := range rs {
		g := r.Guarantee
		if g == nil {
			continue
		}
		rate := fmt.Sprintf("%.2f", g.MaxDisagreement)
		if g.Imported == 0 {
			rate = ""
		}
		t.Rows = append(t.Rows, []string{r.name(), g.Label, rate, strconv.Itoa(g.Imported), strconv.Itoa(g.Requests), proportion(g.Served, g.Requests).text(), g.Disagreed.text(), g.held(), g.Why})
	}
	return t
}

func (rs Reports) truthTable() Table {
	t := Table{
		Title: "Right answers",
		About: "Questions with right answers: capitals, continents, sums, antonyms, misspelt words. The checker is plain: the words of an answer must be in the text, a number must be the last one of the text. With intervals of 95 %.",
		Rows:  [][]string{{"pair", "questions", "answered by", "right"}},
	}
	for _, r := range rs {
		for i := range r.Truth {
			x := &r.Truth[i]
			who := map[string]string{wayDraft: "draft", wayAlone: "target", wayRisk: "cascade, mode risk", wayLenient: "cascade, mode verify, rule lenient"}[x.Way]
			t.Rows = append(t.Rows, []string{r.name(), x.Part, who, x.Right.text()})
		}
	}
	return t
}
