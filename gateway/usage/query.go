package usage

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dimension is what rows of a report may be grouped by.
type Dimension string

// The dimensions.
const (
	ByTenant Dimension = "tenant"
	ByRoute  Dimension = "route"
	ByDay    Dimension = "day"
)

// Query asks for the usage of some UTC days.
type Query struct {
	From, To Day         // both included
	By       []Dimension // in the order of the report's columns and rows; without one there is only the total
}

// has reports whether rows are grouped by a dimension.
func (q *Query) has(d Dimension) bool { return slices.Contains(q.By, d) }

// ParamError says what is wrong with a parameter of a query.
type ParamError struct{ Name, Message string }

// Error implements error.
func (e *ParamError) Error() string { return e.Name + ": " + e.Message }

// ParseQuery parses the parameters of a query, "" for a missing one. The default is the current month until today, by
// tenant. With only to, the query begins with that day's month. Errors are of type *ParamError.
func ParseQuery(from, to, by string, now time.Time) (q Query, err error) {
	q.To = DayOf(now)
	if to != "" {
		if q.To, err = parseDay("to", to); err != nil {
			return Query{}, err
		}
	}
	month := q.To.Begin()
	q.From = DayOf(time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC))
	if from != "" {
		if q.From, err = parseDay("from", from); err != nil {
			return Query{}, err
		}
	}
	switch days := int(q.To-q.From) + 1; {
	case days < 1:
		return Query{}, &ParamError{"from", fmt.Sprintf("%v is after %v; both are UTC days and included", q.From, q.To)}
	case days > MaxDays:
		return Query{}, &ParamError{"from", fmt.Sprintf("%v … %v are %d days; want at most %d", q.From, q.To, days, MaxDays)}
	}
	q.By, err = parseBy(by)
	return q, err
}

func parseDay(name, text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 {
		return 0, &ParamError{name, "want a UTC day such as 2026-11-23"}
	}
	return DayOf(t), nil
}

func parseBy(text string) (by []Dimension, err error) {
	if text == "" {
		return []Dimension{ByTenant}, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		d := Dimension(strings.TrimSpace(word))
		if !slices.Contains([]Dimension{ByTenant, ByRoute, ByDay}, d) || slices.Contains(by, d) {
			return nil, &ParamError{"by", "want tenant, route and day, one or more of them, each once, such as tenant,day"}
		}
		by = append(by, d)
	}
	return by, nil
}
