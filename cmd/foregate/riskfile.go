package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

type riskExportCmd struct {
	redisFlags
	Route string        `help:"Only this route." placeholder:"NAME"`
	Since time.Duration `help:"Only audits that were begun in this time; without it all that the log has." placeholder:"DURATION"`
}

// Run writes the log to the standard output, one risk.LogEntry as JSON in each line. The exit status tells whether it is
// whole.
func (c *riskExportCmd) Run(e *env) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: want 0s or more")
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	routes := []string{c.Route}
	if c.Route == "" {
		routes, err = b.book.Routes(b.ctx)
	} else {
		err = b.knownRoute(c.Route)
	}
	if err != nil {
		return err
	}
	counts := map[string]int{}
	out := bufio.NewWriter(e.stdout)
	for _, route := range routes {
		audits, err := b.book.Audits(b.ctx, route)
		if err != nil {
			return err
		}
		for i := range audits {
			if a := &audits[i]; c.Since == 0 || time.Since(a.When) <= c.Since {
				counts[a.Label]++
				if err := json.NewEncoder(out).Encode(a); err != nil {
					return err
				}
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	good, bad, lost := counts[risk.Good], counts[risk.Bad], counts[risk.Lost]
	_, _ = fmt.Fprintf(e.stderr, "%s: %d good, %d bad, %d lost or under way\n", display.Count(good+bad+lost, "audit", "audits"), good, bad, lost) // whoever reads may be gone
	return nil
}

type riskImportCmd struct {
	redisFlags
	File  string `arg:"" help:"What foregate risk export wrote; - is the standard input."`
	Route string `help:"Only the audits of this route." placeholder:"NAME"`
}

// Run takes all audits of a kind of request as evidence or none, each kind by itself. The exit status is 1 where something
// was refused.
func (c *riskImportCmd) Run(e *env) error {
	in := os.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was read
		in = f
	}
	audits, err := readAudits(in, c.Route)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	if len(audits) == 0 && c.Route != "" {
		return fmt.Errorf("%s has no audits of %s", c.File, words.Clip(c.Route, 60))
	}
	var refused error
	for _, k := range slices.SortedFunc(maps.Keys(audits), func(a, b risk.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if err := b.knownRoute(k.Route); err != nil {
			return err
		}
		text, err := b.take(k, audits[k])
		if errors.Is(err, evidence.ErrAway) {
			return fmt.Errorf("%s: %w", k, err)
		}
		if err != nil {
			text, refused = err.Error(), errSilent
		}
		_, _ = fmt.Fprintf(e.stdout, "%s: %s\n", k, text) // whoever reads may be gone
	}
	return refused
}

// take makes audits the first evidence of their traffic class, and says how many count. Lost ones count as bad.
func (e *evidenceClient) take(k risk.Key, audits []risk.LogEntry) (text string, err error) {
	slices.SortStableFunc(audits, func(a, b risk.LogEntry) int { return a.When.Compare(b.When) })
	drawn := slices.DeleteFunc(slices.Clone(audits), func(a risk.LogEntry) bool { return a.Chance <= 0 })
	p := risk.PlanImport(e.rule(k.Route), nil, drawn)
	if p.Audits == 0 {
		return "", fmt.Errorf("evidence: no such audit counts: a grid is placed by %d of them at least, drawn at random", risk.GridScores)
	}
	done, err := e.book.Certify(e.ctx, k, p)
	if err == nil && !done {
		err = errors.New("evidence: it has evidence already; foregate risk reset forgets that")
	}
	return fmt.Sprintf("%d of %s taken, %d of them bad or lost", p.Audits, display.Count(len(audits), "audit", "audits"), p.Bad), err
}

// readAudits reads and checks a whole file, and returns its audits by traffic class. If route is not "", audits of other
// routes are left out. An error names the line and the field. Audits by a fitted score are refused: another fleet's score
// with the same number is another score.
func readAudits(from io.Reader, route string) (map[risk.Key][]risk.LogEntry, error) {
	of := map[risk.Key][]risk.LogEntry{}
	in := json.NewDecoder(from)
	for n := 1; ; n++ {
		var line json.RawMessage
		err := in.Decode(&line)
		if err == io.EOF {
			return of, nil
		}
		var e risk.LogEntry
		if err == nil {
			err = readAudit(line, &e)
		}
		if version := plan.ScoreOf(e.Key); err == nil && version != 0 {
			err = fmt.Errorf("traffic_class: it is of the fitted score %d, which only its own fleet has", version)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if route == "" || e.Route == route {
			of[e.Key] = append(of[e.Key], e)
		}
	}
}

// counted are the fields of an audit that a certificate counts on, where 0 or false would be another audit.
var counted = []string{"score", "floor", "threshold", "chance", "served"}

// readAudit reads one line, which must have what is counted, and no field that an audit has not.
func readAudit(line []byte, e *risk.LogEntry) error {
	var has map[string]json.RawMessage
	if err := json.Unmarshal(line, &has); err != nil {
		return err
	}
	for _, name := range counted {
		if v := has[name]; v == nil || string(v) == "null" {
			return fmt.Errorf("%s: is missing", name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		return err
	}
	return e.Check()
}
