package auditlog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence"
)

// Counts are numbers of audits by label.
type Counts struct {
	All, Good, Bad, Lost int
	Odd                  int // left out: an audit log should not contain them
}

func (c *Counts) add(label string) {
	c.All++
	switch label {
	case Good:
		c.Good++
	case Bad:
		c.Bad++
	default:
		c.Lost++
	}
}

// String lists the numbers.
func (c *Counts) String() string {
	text := fmt.Sprintf("%s: %d good, %d bad, %d lost or under way", display.Count(c.All, "audit", "audits"), c.Good, c.Bad, c.Lost)
	if c.Odd > 0 {
		text += fmt.Sprintf("; %d left out that no log should hold", c.Odd)
	}
	return text
}

// Export writes the log as JSON lines that [Read] reads: the audits of a route (all routes if route is "")
// that began at from or later.
func Export(ctx context.Context, book *evidence.Store, to io.Writer, route string, from time.Time) (counts Counts, err error) {
	err = book.Log(ctx, func(e evidence.LogEntry) error {
		if route != "" && e.Key.Route != route || e.When.Before(from) {
			return nil
		}
		if l := lineOf(e); l.check() != nil {
			counts.Odd++
			return nil
		}
		counts.add(e.Label)
		return Write(to, e)
	})
	return counts, err
}

// Write writes one audit as a line.
func Write(to io.Writer, e evidence.LogEntry) error {
	out := json.NewEncoder(to)
	out.SetEscapeHTML(false)
	return out.Encode(lineOf(e))
}
