package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	maxAuditLines     = 1_000_000 // of a file
	maxAuditLineBytes = 16 << 10  // exported lines have 500
)

// auditFields are those of a line of a file of audits, as foregate risk export writes it: one risk.LogEntry as JSON. All must be
// there.
var auditFields = []string{"when", "route", "traffic_class", "ticket", "score", "floor", "threshold", "chance", "served", "features", "tokens", "grid", "alarm", "label", "request"}

// readAudits reads and checks a whole file, and returns its audits by traffic class. If route is not "", audits of other routes
// are left out. An error names the line and the field.
func readAudits(from io.Reader, route string) (map[risk.Key][]risk.LogEntry, error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxAuditLineBytes)
	of := map[risk.Key][]risk.LogEntry{}
	n := 1
	for ; in.Scan(); n++ {
		e, err := parseAudit(in.Bytes())
		if n > maxAuditLines {
			err = fmt.Errorf("want at most %d lines; split the file", maxAuditLines)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if route == "" || e.Route == route {
			of[e.Key] = append(of[e.Key], e)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return of, nil
}

// parseAudit reads one line. Audits by a fitted score are refused: another fleet's score with the same number is another
// score.
func parseAudit(text []byte) (e risk.LogEntry, err error) {
	var have map[string]json.RawMessage
	if err := json.Unmarshal(text, &have); err != nil {
		return e, fmt.Errorf("want one JSON object: %w", err)
	}
	for _, name := range auditFields {
		if v := have[name]; v == nil || string(v) == "null" {
			return e, fmt.Errorf("%s: is missing", name)
		}
		delete(have, name)
	}
	for name := range have {
		return e, fmt.Errorf("%.40q: an unknown field", name)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, err // it names the field
	}
	if version := plan.ScoreOf(e.Key); version != 0 {
		return e, fmt.Errorf("traffic_class: it is of the fitted score %d, which only its own fleet has", version)
	}
	return e, e.Check()
}

// Why nothing was imported.
var (
	errEvidenceKnown = errors.New("evidence: it has evidence already; foregate risk reset forgets that")
	errAuditsUseless = fmt.Errorf("evidence: no such audit counts: a grid is placed by %d of them at least, drawn at random", risk.GridScores)
)

// importAudits makes audits the first evidence of their traffic class, and returns how many count. Lost ones count as bad.
func importAudits(ctx context.Context, book *evidence.Store, k risk.Key, audits []risk.LogEntry) (risk.Import, error) {
	slices.SortStableFunc(audits, func(a, b risk.LogEntry) int { return a.When.Compare(b.When) })
	var past []risk.PastAudit
	for i := range audits {
		if a := &audits[i]; a.Chance > 0 {
			past = append(past, risk.PastAudit{Score: a.Score, Floor: a.Floor, Bad: a.Label != risk.Good})
		}
	}
	p := risk.PlanImport(book.Rule(k.Route), nil, past)
	if p.Audits == 0 {
		return p, errAuditsUseless
	}
	done, err := book.Certify(ctx, k, p)
	if err == nil && !done {
		err = errEvidenceKnown
	}
	return p, err
}
