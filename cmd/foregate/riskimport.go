package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
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
		return fmt.Errorf("%s has no audits of %s", c.File, display.Clip(c.Route, 60))
	}
	refused := false
	for _, k := range slices.SortedFunc(maps.Keys(audits), func(a, b risk.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if err := b.mustKnow(k.Route); err != nil {
			return err
		}
		p, err := importAudits(b.ctx, b.book, k, audits[k])
		if errors.Is(err, evidence.ErrAway) {
			return fmt.Errorf("%s: %w", k, err)
		}
		text := fmt.Sprintf("%d of %s taken, %d of them bad or lost", p.Audits, display.Count(len(audits[k]), "audit", "audits"), p.Bad)
		if err != nil {
			text, refused = err.Error(), true
		}
		_, _ = fmt.Fprintf(e.stdout, "%s: %s\n", k, text) // whoever reads may be gone
	}
	if refused {
		return errSilent
	}
	return nil
}
