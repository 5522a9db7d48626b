package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

type riskImportCmd struct {
	where
	File   string `arg:"" help:"What foregate risk export wrote; - is the standard input."`
	Route  string `help:"Only the audits of this route." placeholder:"NAME"`
	DryRun bool   `help:"Only tell what would be taken. Audits that were imported before are not told apart."`
}

// pile are the audits of one key, and the lines that they stand in.
type pile struct {
	key     risk.Key
	entries []evidence.LogEntry
	lines   []int
}

// Run takes all audits of a kind of request as evidence or none, each kind by itself. The exit
// status is 1 where something was refused.
func (c *riskImportCmd) Run(e *env) error {
	piles, err := c.read(e)
	if err != nil {
		return err
	}
	b, err := c.bench(e)
	if err != nil {
		return err
	}
	defer b.close()
	if len(piles) == 0 && c.Route != "" {
		return fmt.Errorf("%s has no audits of %s", c.File, cut(c.Route, 60))
	}
	refused := false
	for i, p := range piles {
		if b.routes != nil && !slices.Contains(b.routes, p.key.Route) {
			return b.unknown(p.key.Route, nil)
		}
		took, err := c.take(b, p)
		if errors.Is(err, evidence.ErrAway) {
			_, _ = fmt.Fprintf(e.stderr, "note: of %s, %d were done\n", counted(len(piles), "kind of request", "kinds of request"), i)
			return err
		}
		refused = refused || err != nil && !errors.Is(err, evidence.ErrNothingNew)
		_, _ = fmt.Fprintf(e.stdout, "%s: %s\n", p.key, p.outcome(took, err, b.rule(p.key.Route))) // whoever reads may be gone
	}
	if refused {
		return errSilent
	}
	return nil
}

// read sorts the file into piles, in the order in which they first appear.
func (c *riskImportCmd) read(e *env) ([]*pile, error) {
	of := map[risk.Key]*pile{}
	var piles []*pile
	err := inFrom(e.ctx, c.File, func(r io.Reader) error {
		return readAudits(r, func(line int, a evidence.LogEntry) error {
			if c.Route != "" && a.Key.Route != c.Route {
				return nil
			}
			p := of[a.Key]
			if p == nil {
				if len(piles) >= maxPiles {
					return fmt.Errorf("more than %d kinds of request", maxPiles)
				}
				p = &pile{key: a.Key}
				of[a.Key] = p
				piles = append(piles, p)
			}
			a.Key = p.key // the line's own text can go
			p.entries, p.lines = append(p.entries, a), append(p.lines, line)
			return nil
		})
	})
	return piles, err
}

// maxPiles is how many kinds of request Redis keeps.
const maxPiles = 1024

// took is what came of a pile.
type took struct {
	evidence.Imported
	dry   bool
	other bool // the route is known to have other models or rules, and not those of the pile
}

// take imports a pile, or tells what would come of it.
func (c *riskImportCmd) take(b *bench, p *pile) (took, error) {
	rule := b.rule(p.key.Route)
	all, err := b.book.All(b.ctx)
	if err != nil {
		return took{}, err
	}
	other := others(all, p.key)
	if !c.DryRun {
		im, err := b.book.Import(b.ctx, p.key, p.entries, rule)
		return took{im, false, other}, err
	}
	var s risk.State
	if i := slices.IndexFunc(all, func(k evidence.Known) bool { return k.Key == p.key }); i >= 0 {
		s = all[i].State
	}
	im, err := rehearse(&s, rule, p.entries)
	return took{im, true, other}, err
}

// others reports whether all that is known of a key's route is of other models or rules than the key's.
func others(all []evidence.Known, key risk.Key) bool {
	some := false
	for i := range all {
		if k := all[i].Key; k.Route == key.Route {
			if some = true; rulesIn(k) == rulesIn(key) {
				return false
			}
		}
	}
	return some
}

// rulesIn is the fingerprint of models and rules in a key.
func rulesIn(k risk.Key) string {
	_, rest, _ := strings.Cut(k.TrafficClass, ".")
	rules, _, _ := strings.Cut(rest, ".")
	return rules
}

// rehearse imports entries into a copy of a state.
func rehearse(s *risk.State, rule risk.Rule, entries []evidence.LogEntry) (evidence.Imported, error) {
	var im evidence.Imported
	inOrder := slices.Clone(entries)
	slices.SortStableFunc(inOrder, func(a, b evidence.LogEntry) int { return a.When.Compare(b.When) })
	var past []risk.PastAudit
	for _, e := range inOrder {
		if s.Version != 0 && e.Version == s.Version {
			im.Known++
			continue
		}
		past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != labelGood})
	}
	p := s.PlanImport(rule, past)
	im.Taken, im.Bad, im.Outside, im.Older, im.Placed = p.Audits, p.Bad, p.Outside, p.Older, len(p.Grid) > 0
	switch {
	case p.Audits > 0:
		s.ApplyImport(rule, p, time.Unix(0, 0))
		im.Op = s.Op
		return im, nil
	case len(past) == 0:
		return im, evidence.ErrNothingNew
	case s.Version == 0 && len(p.Grid) == 0:
		return im, evidence.ErrFew
	case p.Older > 0:
		return im, evidence.ErrNoRoom
	}
	return im, evidence.ErrOutside
}

// outcome tells what became of a pile.
func (p *pile) outcome(t took, err error, rule risk.Rule) string {
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "evidence: ")
		if r, ok := errors.AsType[*evidence.Refused](err); ok && r.Entry >= 0 && r.Entry < len(p.lines) {
			why = fmt.Sprintf("line %d (ticket %s): its %s is %s, not %s", p.lines[r.Entry], r.Ticket, r.What, cut(r.Has, 60), cut(r.Not, 60))
		}
		return fmt.Sprintf("nothing of %s was taken: %s", counted(len(p.entries), "audit", "audits"), why)
	}
	verb := "taken"
	if t.dry {
		verb = "would be taken"
	}
	text := fmt.Sprintf("%d of %s %s, %d of them bad or lost", t.Taken, counted(len(p.entries), "audit", "audits"), verb, t.Bad)
	for _, part := range []struct {
		n    int
		what string
	}{{t.Known, "known already"}, {t.Older, "older than there is room for"}, {t.Outside, "outside of every threshold"}} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	if t.Placed {
		text += "; thresholds placed by them"
	}
	if t.other {
		text += "; the route's requests are of other models or rules than " + rulesIn(p.key) + ", so that none goes by this yet"
	}
	if t.Op == 0 {
		return text + fmt.Sprintf("; nothing certified at %s yet", percent(rule.MaxWrongRate))
	}
	return text + fmt.Sprintf("; certified at %s: threshold %d, which accepts %s", percent(rule.MaxWrongRate), t.Op, percent(risk.AcceptanceShare(t.Op)))
}
