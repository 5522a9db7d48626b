package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/gateway/auditlog"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/evidence"
)

type riskFitCmd struct {
	redisFlags
	Route string        `required:"" help:"The route." placeholder:"NAME"`
	In    string        `help:"Fit to the audits of this file, which foregate risk export wrote, instead of those of the log; - is the standard input." placeholder:"FILE"`
	Since time.Duration `help:"Only to audits that were begun in this time before the newest: since the models are what they are, say." placeholder:"DURATION"`
	Save  bool          `help:"Keep the score where replicas find it. Nothing is judged by it before the setting risk.score_version says so."`
}

// Run fits, tells what the fit is worth, and keeps it if it was told to.
func (c *riskFitCmd) Run(e *env) error {
	var b *evidenceClient
	if c.Save || c.In == "" {
		var err error
		if b, err = c.openEvidence(e); err != nil {
			return err
		}
		defer b.close()
		if b.routes != nil && !slices.Contains(b.routes, c.Route) {
			return b.unknown(c.Route, nil)
		}
	}
	s, err := c.collect(e, b)
	if err != nil {
		return err
	}
	s.Print(e.stdout)
	fitted, err := calibrate.Fit(s.Labelled)
	if few, ok := errors.AsType[*calibrate.TooFewError](err); ok {
		return fmt.Errorf("%s has %d good and %d bad audits; a fit takes %d together, and %d of each", display.Clip(c.Route, 60), few.Good, few.Bad, calibrate.MinSamples, calibrate.MinPerLabel)
	}
	if err != nil {
		return err
	}
	auditlog.PrintFit(e.stdout, &fitted)
	if !c.Save {
		_, _ = fmt.Fprintln(e.stdout, "not saved; --save keeps it") // whoever reads may be gone
		return nil
	}
	raw, err := json.Marshal(fitted)
	if err != nil {
		return err
	}
	version, err := b.book.SaveMap(b.ctx, c.Route, raw, b.snapshot.Route(c.Route).Tiers.Risk.ScoreVersion)
	if err != nil {
		return err
	}
	name := "risk.score_version@" + c.Route
	_, _ = fmt.Fprintf(e.stdout, "saved as version %d\nto judge by it, once audits have certified thresholds of its own:\n  foregate settings set %s\nto go back:\n  foregate settings unset %s\n",
		version, shellWord(fmt.Sprintf("%s=%d", name, version)), shellWord(name))
	return nil
}

// shellWord is what a shell takes for one word.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@=._-/:+,", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// collect chooses the audits of the route, from the file or from the log.
func (c *riskFitCmd) collect(e *env, b *evidenceClient) (*auditlog.Selection, error) {
	return auditlog.SelectForFit(c.Route, c.Since, func(see func(evidence.LogEntry)) error {
		if c.In == "" {
			return b.book.Log(b.ctx, func(a evidence.LogEntry) error { see(a); return nil })
		}
		return readFile(e.ctx, c.In, func(r io.Reader) error {
			return auditlog.Read(r, func(_ int, a evidence.LogEntry) error { see(a); return nil })
		})
	})
}
