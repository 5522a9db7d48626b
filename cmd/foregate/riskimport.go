package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/foregate/foregate/gateway/auditlog"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence"
)

type riskImportCmd struct {
	redisFlags
	File  string `arg:"" help:"What foregate risk export wrote; - is the standard input."`
	Route string `help:"Only the audits of this route." placeholder:"NAME"`
}

// Run takes all audits of a kind of request as evidence or none, each kind by itself. The exit
// status is 1 where something was refused.
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
	batches, err := auditlog.Read(in, c.Route)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	if len(batches) == 0 && c.Route != "" {
		return fmt.Errorf("%s has no audits of %s", c.File, display.Clip(c.Route, 60))
	}
	refused := false
	for _, batch := range batches {
		if err := b.mustKnow(batch.Key.Route); err != nil {
			return err
		}
		p, err := b.book.Import(b.ctx, batch.Key, batch.Entries)
		if errors.Is(err, evidence.ErrAway) {
			return fmt.Errorf("%s: %w", batch.Key, err)
		}
		text := fmt.Sprintf("%d of %s taken, %d of them bad or lost", p.Audits, display.Count(len(batch.Entries), "audit", "audits"), p.Bad)
		if err != nil {
			text = err.Error()
		}
		refused = refused || err != nil
		_, _ = fmt.Fprintf(e.stdout, "%s: %s\n", batch.Key, text) // whoever reads may be gone
	}
	if refused {
		return errSilent
	}
	return nil
}
