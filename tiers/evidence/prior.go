package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/risk"
)

// Why nothing was imported.
var (
	ErrKnown = errors.New("evidence: it has evidence already; foregate risk reset forgets that")
	ErrNoUse = fmt.Errorf("evidence: no such audit counts: a grid is placed by %d of them at least, drawn at random", risk.GridScores)
)

// Import makes audits of another fleet, or of earlier, the first evidence of their key, and returns how many count. All have
// the key and are valid ([LogEntry.Check]). Lost audits count as bad.
func (b *Store) Import(ctx context.Context, k risk.Key, entries []LogEntry) (risk.Import, error) {
	inOrder := slices.Clone(entries)
	slices.SortStableFunc(inOrder, func(a, b LogEntry) int { return a.When.Compare(b.When) })
	var past []risk.PastAudit
	for _, e := range inOrder {
		if e.Chance > 0 {
			past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != Good})
		}
	}
	p := risk.PlanImport(b.opts.Rule(k.Route), nil, past)
	if p.Audits == 0 {
		return p, ErrNoUse
	}
	done, err := b.Certify(ctx, k, p)
	if err == nil && !done {
		err = ErrKnown
	}
	return p, err
}

// Certify makes audits the first evidence of a key. It reports false if the key has some.
func (b *Store) Certify(ctx context.Context, k risk.Key, p risk.Import) (bool, error) {
	r := b.opts.Rule(k.Route)
	if err := checked(r, k); err != nil {
		return false, err
	}
	if b.local != nil {
		return b.local.certify(r, k, p), nil
	}
	word, err := b.change(ctx, priorScript, k, r, joined(p.Grid), integers(p.N[:]), integers(p.K[:]), p.Audits, p.Failed)
	return word == "1", err
}

func integers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " ")
}
