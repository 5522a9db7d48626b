package usage

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// reportOf is the report of a meter without Redis.
func reportOf(t *testing.T, m *Meter, by string) *Report {
	t.Helper()
	q, err := ParseQuery("", "", by, noon)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACSVFileOpensInASpreadsheet(t *testing.T) {
	m := meterAt(Options{}, noon)
	for _, tenant := range []string{"acme", "-1-2", "=1+1", "+1", "@SUM(A1)", "a \"quoted\", name", "line\r\nbreak", "＝1"} {
		m.Add(noon, tenant, "llama-3", &Counts{Requests: 1, OK: 1, DraftUSD: 1, TargetUSD: 1_000_000_000, DraftsSaved: -250_000_000})
	}
	var text strings.Builder
	if err := reportOf(t, m, "tenant,route").WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(text.String(), "\r\n")
	if want := "tenant,route,requests,ok,refused,limited,shed,failed,client_left,cached_answers,coalesced_answers,prompt_tokens,completion_tokens,draft_tokens,cached_tokens,draft_usd,target_usd,usd,target_alone_usd,saved_by_drafts_usd,saved_by_cache_usd\r\n"; lines[0] != want {
		t.Errorf("the first line is %q", lines[0])
	}
	rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(rows) != 9 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var names []string
	for _, row := range rows[1:] {
		names = append(names, row[0])
		if got := strings.Join(row[15:], " "); got != "0.000000001 1 1.000000001 0 -0.25 0" {
			t.Errorf("amounts: %s", got)
		}
	}
	if got := fmt.Sprintf("%q", names); got != `["'+1" "'-1-2" "'=1+1" "'@SUM(A1)" "a \"quoted\", name" "acme" "line??break" "'＝1"]` {
		t.Errorf("tenants: %s", got)
	}
}

func TestColumnsOfJSONAndCSVHaveTheSameNamesAndValues(t *testing.T) {
	c := Counts{}
	for i, n := range c.columns() {
		*n = int64(i + 1)
	}
	row := rowFor(&c)
	b, err := json.Marshal(&row)
	if err != nil {
		t.Fatal(err)
	}
	var told map[string]json.Number
	if err := json.Unmarshal(b, &told); err != nil {
		t.Fatal(err)
	}
	for _, name := range columnsOfCSV {
		if told[name] == "" {
			t.Errorf("%s is not in JSON", name)
		}
		delete(told, name)
	}
	if len(told) > 0 {
		t.Errorf("not as CSV: %v", told)
	}
	var again Row
	if err := json.Unmarshal(b, &again); err != nil || again != row {
		t.Errorf("%+v is read as %+v, %v", row, again, err)
	}
}

func TestRowsAreGroupedAndOrderedAsAsked(t *testing.T) {
	m := meterAt(Options{}, noon)
	for i := range 12 {
		m.Add(noon.AddDate(0, 0, -i%3), fmt.Sprint("t", i%2), fmt.Sprint("r", i%4), &Counts{Requests: 1})
	}
	for by, want := range map[string]string{
		"tenant":           "t0:6 t1:6",
		"day":              "2026-11-21:4 2026-11-22:4 2026-11-23:4",
		"route,tenant":     "r0/t0:3 r1/t1:3 r2/t0:3 r3/t1:3",
		"day,tenant":       "2026-11-21/t0:2 2026-11-21/t1:2 2026-11-22/t0:2 2026-11-22/t1:2 2026-11-23/t0:2 2026-11-23/t1:2",
		"tenant,route,day": "t0/r0/2026-11-21:1 t0/r0/2026-11-22:1 t0/r0/2026-11-23:1 t0/r2/2026-11-21:1 t0/r2/2026-11-22:1 t0/r2/2026-11-23:1 t1/r1/2026-11-21:1 t1/r1/2026-11-22:1 t1/r1/2026-11-23:1 t1/r3/2026-11-21:1 t1/r3/2026-11-22:1 t1/r3/2026-11-23:1",
	} {
		r := reportOf(t, m, by)
		var got []string
		for _, row := range r.Rows {
			var names []string
			for _, d := range r.By {
				names = append(names, row.Group(d))
			}
			got = append(got, fmt.Sprintf("%s:%d", strings.Join(names, "/"), row.Requests))
		}
		if text := strings.Join(got, " "); text != want || r.Total.Requests != 12 || r.Scope != ScopeReplica {
			t.Errorf("%s: %s; %d in all, %s", by, text, r.Total.Requests, r.Scope)
		}
	}
}

func TestAReportWithTooManyRowsIsRefused(t *testing.T) {
	s := sum{query: Query{By: []Dimension{ByTenant}}, rows: map[group]*Counts{}}
	for i := range MaxReportRows + 1 {
		s.add(1, rowKey{tenant: fmt.Sprint(i)}, &Counts{Requests: 1})
	}
	if !s.tooMany || len(s.rows) != MaxReportRows {
		t.Errorf("%d rows", len(s.rows))
	}
}
