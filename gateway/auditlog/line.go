// Package auditlog provides the operators' functions on the audit log: export to a file of JSON lines, and
// import of such a file as evidence elsewhere.
package auditlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/gateway/display"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	maxLines     = 1_000_000 // of a file
	maxLineBytes = 16 << 10  // exported lines have 500
	maxNameBytes = 256       // bytes of a name
	maxCount     = 1 << 31
	// maxScore is above every score: 1e9 stands for a threshold that no score reaches.
	maxScore    = 1e9
	maxFeatures = 8
)

// line is one audit as JSON, one line of a file. Names and meanings of the fields are stable.
type line struct {
	When         time.Time `json:"when"`          // by Redis' clock
	Route        string    `json:"route"`         // these three identify its evidence
	TrafficClass string    `json:"traffic_class"` //
	Ticket       string    `json:"ticket"`        // of the audit: 1 … 64 of [A-Za-z0-9-]
	Score        float64   `json:"score"`         // of the draft, nats
	Floor        float64   `json:"floor"`         // lowest audited score
	Threshold    float64   `json:"threshold"`
	Served       bool      `json:"served"`   // the client got the draft
	Features     []float64 `json:"features"` // in the order of accept.FeatureNames
	Tokens       int       `json:"tokens"`   // of the draft
	Map          int       `json:"map"`      // version of the score; 0 is the plain one
	Grid         int64     `json:"grid"`     // version of the thresholds
	Label        string    `json:"label"`    // good, bad or lost

	// These may be missing: files of older versions do not have them.
	Request string            `json:"request,omitempty"` // id of the draft's request: 1 … 64 of [A-Za-z0-9-]
	Labels  map[string]string `json:"labels,omitempty"`  // good or bad, by the name of a risk.Label
}

// Labels of audits.
const (
	Good = "good" // the target stands by the draft
	Bad  = "bad"
	Lost = "lost" // its end is unknown, or it is in progress
)

// lineOf converts a log entry to a line.
func lineOf(e evidence.LogEntry) line {
	l := line{
		When: e.When.UTC(), Route: e.Key.Route, TrafficClass: e.Key.TrafficClass, Ticket: e.Ticket,
		Score: e.Score, Floor: e.Floor, Threshold: e.Threshold, Served: e.Served, Features: append([]float64{}, e.Features...),
		Tokens: e.Tokens, Map: e.Map, Grid: e.Version, Label: e.Label, Request: e.Request,
	}
	l.setLabels(&e.Labels)
	return l
}

// entry converts a line to a log entry.
func (l *line) entry() evidence.LogEntry {
	return evidence.LogEntry{
		When: l.When, Key: risk.Key{Route: l.Route, TrafficClass: l.TrafficClass}, Ticket: l.Ticket,
		Score: l.Score, Floor: l.Floor, Threshold: l.Threshold, Served: l.Served, Features: l.Features,
		Tokens: l.Tokens, Map: l.Map, Version: l.Grid, Label: l.Label, Request: l.Request, Labels: l.labels(),
	}
}

// Read reads the format of [Export], strictly, and passes each audit with its line number to see. An error,
// also one of see, names the line.
func Read(from io.Reader, see func(number int, e evidence.LogEntry) error) error {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 4<<10), maxLineBytes)
	n := 0
	for in.Scan() {
		if n++; n > maxLines {
			return fmt.Errorf("more than %d lines; split the file", maxLines)
		}
		l, err := parseLine(in.Bytes())
		if err == nil {
			err = see(n, l.entry())
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: has more than %d bytes", n+1, maxLineBytes)
	}
	return in.Err()
}

// parseLine reads one line: one object with each field once. Only the optional ones may be missing.
func parseLine(text []byte) (line, error) {
	var l line
	into := map[string]any{
		"when": &l.When, "route": &l.Route, "traffic_class": &l.TrafficClass, "ticket": &l.Ticket,
		"score": &l.Score, "floor": &l.Floor, "threshold": &l.Threshold, "served": &l.Served, "features": &l.Features,
		"tokens": &l.Tokens, "map": &l.Map, "grid": &l.Grid, "label": &l.Label, "request": &l.Request, "labels": &l.Labels,
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return l, errors.New("want a JSON object")
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return l, errors.New("want a JSON object")
		}
		target, ok := into[name]
		if !ok {
			return l, fmt.Errorf("%s: an unknown field, or one given twice", display.Clip(name, 40))
		}
		delete(into, name)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return l, fmt.Errorf("%s: %w", name, err)
		}
		if string(raw) == "null" {
			return l, fmt.Errorf("%s: is null", name)
		}
		if err := json.Unmarshal(raw, target); err != nil {
			return l, fmt.Errorf("%s: want %s", name, describeField(name))
		}
	}
	if _, err := d.Token(); err != nil {
		return l, errors.New("the object has no end")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("something follows the object")
	}
	for _, name := range fieldNames {
		if _, missing := into[name]; missing && !slices.Contains(optional, name) {
			return l, fmt.Errorf("%s: is missing", name)
		}
	}
	return l, l.check()
}

// fieldNames are the fields of a line, in order.
var fieldNames = []string{"when", "route", "traffic_class", "ticket", "score", "floor", "threshold", "served", "features", "tokens", "map", "grid", "label", "request", "labels"}

// optional are those that may be missing.
var optional = []string{"request", "labels"}

// describeField describes the valid values of a field.
func describeField(name string) string {
	switch name {
	case "when":
		return "a time such as 2006-01-02T15:04:05Z"
	case "served":
		return "true or false"
	case "score", "floor", "threshold":
		return "a number from -1e9 to 1e9"
	case "features":
		return "at most 8 numbers from -1e9 to 1e9"
	case "tokens", "map", "grid":
		return "a count"
	case "label":
		return "good, bad or lost"
	case "labels":
		return "good or bad by the name of a label"
	case "ticket", "request":
		return "1 to 64 letters, digits and hyphens"
	}
	return "a name of at most 256 bytes that can be printed"
}

// check refuses values that no log contains.
func (l *line) check() error {
	fine := map[string]bool{
		"when": l.When.Year() >= 2000 && l.When.Year() < 3000, "route": isName(l.Route), "traffic_class": isName(l.TrafficClass),
		"ticket": isTicket(l.Ticket),
		"score":  isScore(l.Score), "floor": isScore(l.Floor), "threshold": isScore(l.Threshold), "served": true, "features": len(l.Features) <= maxFeatures,
		"tokens": l.Tokens >= 0 && l.Tokens < maxCount, "map": l.Map >= 0 && l.Map < maxCount, "grid": l.Grid >= 0,
		"label":   l.Label == Good || l.Label == Bad || l.Label == Lost,
		"request": l.Request == "" || isTicket(l.Request), "labels": l.hasLabels(),
	}
	for _, x := range l.Features {
		fine["features"] = fine["features"] && isScore(x)
	}
	for _, name := range fieldNames {
		if !fine[name] {
			return fmt.Errorf("%s: want %s", name, describeField(name))
		}
	}
	return nil
}

func isScore(x float64) bool { return math.Abs(x) <= maxScore } // false for NaN

func isName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}

func isTicket(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}
