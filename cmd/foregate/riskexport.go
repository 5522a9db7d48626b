package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/risk"
)

type riskExportCmd struct {
	redisFlags
	Route string        `help:"Only this route." placeholder:"NAME"`
	Since time.Duration `help:"Only audits that were begun in this time; without it all that the log has." placeholder:"DURATION"`
}

// Run writes the log to the standard output. The exit status tells whether it is whole.
func (c *riskExportCmd) Run(e *env) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: want 0s or more")
	}
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	if c.Route != "" {
		if err := b.mustKnow(c.Route); err != nil {
			return err
		}
	}
	var from time.Time
	if c.Since > 0 {
		now, err := b.client.Time(b.ctx).Result() // the log goes by Redis' clock
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		from = now.Add(-c.Since)
	}
	counts := map[string]int{}
	out := bufio.NewWriter(e.stdout)
	err = b.book.Log(b.ctx, func(a risk.LogEntry) error {
		if c.Route != "" && a.Route != c.Route || a.When.Before(from) {
			return nil
		}
		counts[a.Label]++
		a.When = a.When.UTC()
		return json.NewEncoder(out).Encode(a)
	})
	if err = cmp.Or(err, out.Flush()); err != nil {
		return err
	}
	good, bad, lost := counts[risk.Good], counts[risk.Bad], counts[risk.Lost]
	_, _ = fmt.Fprintf(e.stderr, "%s: %d good, %d bad, %d lost or under way\n", display.Count(good+bad+lost, "audit", "audits"), good, bad, lost) // whoever reads may be gone
	return nil
}
