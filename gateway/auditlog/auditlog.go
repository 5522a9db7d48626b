// Package auditlog reads the file of audits that foregate risk export writes: one evidence.LogEntry as JSON in each line.
package auditlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	maxLines     = 1_000_000 // of a file
	maxLineBytes = 16 << 10  // exported lines have 500
	maxBatches   = 1024      // traffic classes that Redis keeps
)

// fields are those of a line. All must be there.
var fields = []string{"when", "route", "traffic_class", "ticket", "score", "floor", "threshold", "chance", "served", "features", "tokens", "grid", "alarm", "label", "request"}

// Batch holds the audits of one traffic class in a file.
type Batch struct {
	Key     risk.Key
	Entries []evidence.LogEntry
}

// Read reads and checks a whole file, and groups its audits by traffic class, in order of first appearance. If route is
// not "", audits of other routes are left out. An error names the line and the field.
func Read(from io.Reader, route string) ([]*Batch, error) {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 4<<10), maxLineBytes)
	of := map[risk.Key]*Batch{}
	var batches []*Batch
	n := 0
	for in.Scan() {
		if n++; n > maxLines {
			return nil, fmt.Errorf("more than %d lines; split the file", maxLines)
		}
		e, err := parseLine(in.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if route != "" && e.Route != route {
			continue
		}
		b := of[e.Key]
		if b == nil {
			b = &Batch{Key: e.Key}
			of[e.Key], batches = b, append(batches, b)
		}
		if len(batches) > maxBatches {
			return nil, fmt.Errorf("line %d: more than %d traffic classes", n, maxBatches)
		}
		e.Key = b.Key // so that the line's own text can be freed
		b.Entries = append(b.Entries, e)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return batches, nil
}

// parseLine reads one line. Audits by a fitted score are refused: another fleet's score with the same number is another
// score.
func parseLine(text []byte) (e evidence.LogEntry, err error) {
	if err := checkFields(text); err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		if _, ok := errors.AsType[*time.ParseError](err); ok {
			err = fmt.Errorf("when: %w", err)
		}
		return e, err // it names the field
	}
	if version := plan.ScoreOf(e.Key); version != 0 {
		return e, fmt.Errorf("traffic_class: it is of the fitted score %d, which only its own fleet has", version)
	}
	return e, e.Check()
}

// checkFields checks that a line is one object that has each field once.
func checkFields(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	missing := slices.Clone(fields)
	for d.More() {
		name, err := d.Token()
		i := slices.IndexFunc(missing, func(field string) bool { return field == name })
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%.40v: %w", name, err)
		case i < 0:
			return fmt.Errorf("%.40q: an unknown field, or one given twice", name)
		case string(value) == "null":
			return fmt.Errorf("%s: is null", name)
		}
		missing = slices.Delete(missing, i, i+1)
	}
	switch {
	case !json.Valid(text):
		return errors.New("want one JSON object")
	case len(missing) > 0:
		return fmt.Errorf("%s: is missing", missing[0])
	}
	return nil
}
