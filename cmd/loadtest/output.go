package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/foregate/foregate/loadtest"
)

// asJSON is the report's JSON, or a list of them when there are several seeds.
func asJSON(reports []*loadtest.Report) ([]byte, error) {
	var all []json.RawMessage
	for _, r := range reports {
		one, err := r.JSON()
		if err != nil || len(reports) == 1 {
			return one, err
		}
		all = append(all, one)
	}
	out, err := json.MarshalIndent(all, "", "  ")
	return append(out, '\n'), err
}

// spread is a table of all numbers of the rows over the seeds: mean ± standard
// deviation of the sample.
func spread(reports []*loadtest.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Mean ± standard deviation of %d seeds, %d to %d:\n\n", len(reports), reports[0].Seed, reports[len(reports)-1].Seed)
	rows := make([][]reflect.Value, len(reports[0].Results)) // by case, then by seed
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, r := range reports {
		for i, res := range r.Results {
			rows[i] = append(rows[i], reflect.ValueOf(res.Row()))
		}
	}
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "\t%s", row[0].FieldByName("Name").String()) // memory takes everything
	}
	_, _ = fmt.Fprintln(w)
	for _, f := range numbers() {
		_, _ = fmt.Fprint(w, f.name)
		for _, row := range rows {
			mean, sd := moments(row, f.index)
			_, _ = fmt.Fprintf(w, "\t%.4g ± %.2g", mean, sd)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // as above
	return b.String()
}

// number is a column of a row that holds one.
type number struct {
	name  string // in JSON
	index int    // of the field
}

// numbers are a row's columns but its name.
func numbers() []number {
	var out []number
	kind := reflect.TypeFor[loadtest.Row]()
	for i := range kind.NumField() {
		if f := kind.Field(i); f.Type.Kind() != reflect.String {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, number{name, i})
		}
	}
	return out
}

// moments are mean and standard deviation of a field over the seeds.
func moments(row []reflect.Value, field int) (mean, sd float64) {
	value := func(v reflect.Value) float64 {
		if f := v.Field(field); f.CanInt() {
			return float64(f.Int())
		} else {
			return f.Float()
		}
	}
	for _, v := range row {
		mean += value(v) / float64(len(row))
	}
	for _, v := range row {
		sd += (value(v) - mean) * (value(v) - mean)
	}
	if len(row) > 1 {
		sd = math.Sqrt(sd / float64(len(row)-1))
	}
	return mean, sd
}
