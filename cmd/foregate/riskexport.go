package main

import (
	"fmt"
	"io"
	"time"

	"github.com/foregate/foregate/gateway/auditlog"
)

type riskExportCmd struct {
	redisFlags
	Route string        `help:"Only this route." placeholder:"NAME"`
	Since time.Duration `help:"Only audits that were begun in this time; without it all that the log has." placeholder:"DURATION"`
	Out   string        `default:"-" help:"Where to; - is the standard output (${default})." placeholder:"FILE"`
}

// Run writes the log. A file is there whole or not at all.
func (c *riskExportCmd) Run(e *env) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: want 0s or more")
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	var from time.Time
	if c.Since > 0 {
		now, err := b.redisNow()
		if err != nil {
			return err
		}
		from = now.Add(-c.Since)
	}
	var told auditlog.Counts
	err = writeFile(c.Out, e.stdout, func(w io.Writer) error { told, err = auditlog.Export(b.ctx, b.book, w, c.Route, from); return err })
	if err != nil {
		return err
	}
	if told.All == 0 && c.Route != "" && b.routes != nil {
		if err := b.unknown(c.Route, nil); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(e.stderr, told.String()) // whoever reads may be gone
	return nil
}
