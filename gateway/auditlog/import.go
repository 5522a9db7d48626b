package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// maxBatches is the number of traffic classes that Redis keeps.
const maxBatches = 1024

// Batch holds the audits of one traffic class in a file.
type Batch struct {
	Key     risk.Key
	entries []evidence.LogEntry
	lines   []int // line numbers in the file
}

// ReadBatches reads a file as [Read] does, and groups its audits by traffic class, in order of first
// appearance. If route is not "", audits of other routes are left out.
func ReadBatches(from io.Reader, route string) ([]*Batch, error) {
	of := map[risk.Key]*Batch{}
	var batches []*Batch
	err := Read(from, func(number int, e evidence.LogEntry) error {
		if route != "" && e.Key.Route != route {
			return nil
		}
		b := of[e.Key]
		if b == nil {
			if len(batches) >= maxBatches {
				return fmt.Errorf("more than %d kinds of request", maxBatches)
			}
			b = &Batch{Key: e.Key}
			of[e.Key] = b
			batches = append(batches, b)
		}
		e.Key = b.Key // so that the line's own text can be freed
		b.entries, b.lines = append(b.entries, e), append(b.lines, number)
		return nil
	})
	return batches, err
}

// Importer imports batches as evidence.
type Importer struct {
	Book   *evidence.Store
	Rule   func(route string) risk.Rule
	DryRun bool // only report the result; audits that were imported before are counted again
}

// result is the result of importing a batch.
type result struct {
	evidence.Imported
	dry   bool
	other bool // the route has other models or rules than the batch
}

// Import imports a batch completely or not at all, and describes the result in one line. After
// [evidence.ErrAway] the result is unknown; any other error says why nothing was imported.
func (im Importer) Import(ctx context.Context, b *Batch) (text string, err error) {
	rule := im.Rule(b.Key.Route)
	r, err := im.take(ctx, b, rule)
	return b.describe(r, err, rule), err
}

func (im Importer) take(ctx context.Context, b *Batch, rule risk.Rule) (result, error) {
	all, err := im.Book.All(ctx)
	if err != nil {
		return result{}, err
	}
	other := others(all, b.Key)
	if !im.DryRun {
		taken, err := im.Book.Import(ctx, b.Key, b.entries, rule)
		return result{taken, false, other}, err
	}
	var s risk.State
	if i := slices.IndexFunc(all, func(k evidence.KeyState) bool { return k.Key == b.Key }); i >= 0 {
		s = all[i].State
	}
	taken, err := rehearse(&s, rule, b.entries)
	return result{taken, true, other}, err
}

// others reports whether all evidence of a key's route belongs to other models or rules than the key's.
func others(all []evidence.KeyState, key risk.Key) bool {
	some := false
	for i := range all {
		if k := all[i].Key; k.Route == key.Route {
			if some = true; riskview.Rules(k) == riskview.Rules(key) {
				return false
			}
		}
	}
	return some
}

// rehearse imports entries into a copy of a state.
func rehearse(s *risk.State, rule risk.Rule, entries []evidence.LogEntry) (evidence.Imported, error) {
	var im evidence.Imported
	inOrder := slices.Clone(entries)
	slices.SortStableFunc(inOrder, func(a, b evidence.LogEntry) int { return a.When.Compare(b.When) })
	var past []risk.PastAudit
	for _, e := range inOrder {
		if s.Version != 0 && e.Version == s.Version {
			im.Duplicates++
			continue
		}
		past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != Good})
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

// describe returns the result of a batch in one line.
func (b *Batch) describe(r result, err error, rule risk.Rule) string {
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "evidence: ")
		if e, ok := errors.AsType[*evidence.Refused](err); ok && e.Entry >= 0 && e.Entry < len(b.lines) {
			why = fmt.Sprintf("line %d (ticket %s): its %s is %s, not %s", b.lines[e.Entry], e.Ticket, e.What, display.Clip(e.Has, 60), display.Clip(e.Not, 60))
		}
		return fmt.Sprintf("nothing of %s was taken: %s", display.Count(len(b.entries), "audit", "audits"), why)
	}
	verb := "taken"
	if r.dry {
		verb = "would be taken"
	}
	text := fmt.Sprintf("%d of %s %s, %d of them bad or lost", r.Taken, display.Count(len(b.entries), "audit", "audits"), verb, r.Bad)
	for _, part := range []struct {
		n    int
		what string
	}{{r.Duplicates, "known already"}, {r.Older, "older than there is room for"}, {r.Outside, "outside of every threshold"}} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	if r.Placed {
		text += "; thresholds placed by them"
	}
	if r.other {
		text += "; the route's requests are of other models or rules than " + riskview.Rules(b.Key) + ", so that none goes by this yet"
	}
	if r.Op == 0 {
		return text + fmt.Sprintf("; nothing certified at %s yet", display.Percent(rule.MaxWrongRate))
	}
	return text + fmt.Sprintf("; certified at %s: threshold %d, which accepts %s", display.Percent(rule.MaxWrongRate), r.Op, display.Percent(risk.AcceptanceShare(r.Op)))
}
