package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/foregate/foregate/gateway/auditlog"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence"
)

type riskImportCmd struct {
	redisFlags
	File   string `arg:"" help:"What foregate risk export wrote; - is the standard input."`
	Route  string `help:"Only the audits of this route." placeholder:"NAME"`
	DryRun bool   `help:"Only tell what would be taken. Audits that were imported before are not told apart."`
}

// Run takes all audits of a kind of request as evidence or none, each kind by itself. The exit
// status is 1 where something was refused.
func (c *riskImportCmd) Run(e *env) error {
	var batches []*auditlog.Batch
	err := readFile(e.ctx, c.File, func(r io.Reader) (err error) { batches, err = auditlog.ReadBatches(r, c.Route); return err })
	if err != nil {
		return err
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	if len(batches) == 0 && c.Route != "" {
		return fmt.Errorf("%s has no audits of %s", c.File, display.Clip(c.Route, 60))
	}
	importer := auditlog.Importer{Book: b.book, Rule: b.rule, DryRun: c.DryRun}
	refused := false
	for i, batch := range batches {
		if route := batch.Key.Route; b.routes != nil && !slices.Contains(b.routes, route) {
			return b.unknown(route, nil)
		}
		result, err := importer.Import(b.ctx, batch)
		if errors.Is(err, evidence.ErrAway) {
			_, _ = fmt.Fprintf(e.stderr, "note: of %s, %d were done\n", display.Count(len(batches), "kind of request", "kinds of request"), i)
			return err
		}
		refused = refused || err != nil && !errors.Is(err, evidence.ErrNothingNew)
		_, _ = fmt.Fprintf(e.stdout, "%s: %s\n", batch.Key, result) // whoever reads may be gone
	}
	if refused {
		return errSilent
	}
	return nil
}
