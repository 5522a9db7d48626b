package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// importTries is how often an import is computed again because an audit changed the state meanwhile.
const importTries = 8

// Why nothing was imported.
var (
	ErrNothingNew = errors.New("evidence: all these audits are known already")
	ErrNoUse      = fmt.Errorf("evidence: no such audit counts: a grid is placed by %d of them at least, a score below it says nothing, and the gateway's own may fill half a lease already", risk.GridScores)
	ErrMoved      = errors.New("evidence: the evidence changes faster than audits can be added to it")
)

// Import adds audits of another fleet, or of earlier, to the evidence of their key (see [risk.State.PlanImport]), and
// returns how many count. All have the key and are valid ([LogEntry.Check]). Lost audits count as bad. Nothing counts
// twice: audits under the key's own grid are known already, and so are those that are not newer than the newest imported
// one.
func (b *Store) Import(ctx context.Context, k risk.Key, entries []LogEntry) (risk.Import, error) {
	rule := b.opts.Rule(k.Route)
	if err := checked(rule, k); err != nil {
		return risk.Import{}, err
	}
	for range importTries {
		w, err := b.whole(ctx, k)
		if err != nil {
			return risk.Import{}, err
		}
		p, err := reckon(w, entries, rule)
		if err != nil {
			return risk.Import{}, err
		}
		if done, err := b.add(ctx, rule, k, p); err != nil || done {
			return p.Import, err
		}
	}
	return risk.Import{}, ErrMoved
}

// batchPart is a batch to import, with the store's own fields that it was computed for.
type batchPart struct {
	risk.Import
	was, newest int64 // µs
}

// reckon computes what audits would add.
func reckon(w fullState, entries []LogEntry, rule risk.Rule) (batchPart, error) {
	inOrder := slices.Clone(entries)
	slices.SortStableFunc(inOrder, func(a, b LogEntry) int { return a.When.Compare(b.When) })
	p := batchPart{was: w.prior, newest: w.prior}
	var past []risk.PastAudit
	for _, e := range inOrder {
		at := e.When.UnixMicro()
		if e.Chance > 0 && at > w.prior && (w.Version == 0 || e.Version != w.Version) {
			p.newest = at
			past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != Good})
		}
	}
	if len(past) == 0 {
		return p, ErrNothingNew
	}
	if p.Import = w.PlanImport(rule, past); p.Audits == 0 {
		return p, ErrNoUse
	}
	return p, nil
}

// whole reads the state of a key. Foreign values count as an empty state.
func (b *Store) whole(ctx context.Context, k risk.Key) (fullState, error) {
	if b.local != nil {
		return b.local.whole(k), nil
	}
	states, err := b.read(ctx, []risk.Key{k})
	if err != nil {
		return fullState{}, err
	}
	if err := states[0].err; err != nil && script.Answered(err) {
		return fullState{}, b.failed(err)
	} else if err != nil {
		b.health.note(foreign, err)
		return fullState{missing: true}, nil
	}
	return states[0].fullState, nil
}

// add imports a batch if the state is still the one that the batch was computed for.
func (b *Store) add(ctx context.Context, r risk.Rule, k risk.Key, p batchPart) (bool, error) {
	if b.local != nil {
		return b.local.add(r, k, p), nil
	}
	word, err := b.change(ctx, priorScript, k, r, p.Version, p.Alarm, p.was, p.newest, joined(p.Grid), integers(p.N[:]), integers(p.K[:]), p.Audits, p.Failed)
	return word == "1", err
}

func integers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " ")
}
