package evidence

import (
	"context"
	"strconv"
	"strings"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// importTries is how often an import is computed again because an audit changed the state meanwhile.
const importTries = 8

// Import adds the audits of a log to the evidence of a key (see [risk.State.PlanImport]), all of them or
// none. Entries of another key or another fitted score are refused ([Refused]). Lost audits count as bad.
// Nothing counts twice: entries that were audited under the key's own grid are known already, and so are
// entries that are not newer than the newest imported one.
func (b *Store) Import(ctx context.Context, k risk.Key, entries []LogEntry, rule risk.Rule) (Imported, error) {
	if _, err := nameOf(k); err != nil {
		return Imported{}, err
	}
	if err := checkRule(rule); err != nil {
		return Imported{}, err
	}
	for range importTries {
		w, err := b.whole(ctx, k)
		if err != nil {
			return Imported{}, err
		}
		if err := fits(k, entries, w.calib); err != nil {
			return Imported{}, err
		}
		p, im, err := reckon(w, entries, rule)
		if err != nil {
			return im, err
		}
		done, err := b.add(ctx, rule, k, p)
		if err != nil {
			return Imported{}, err
		}
		if !done {
			continue
		}
		w, err = b.whole(ctx, k)
		im.Op = w.Op
		return im, err
	}
	return Imported{}, ErrMoved
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
	word, err := b.change(ctx, priorScript, k, r, p.Version, p.Alarm, p.was, p.newest, joined(p.Grid), integers(p.N[:]), integers(p.K[:]), p.Audits, p.calib, p.Failed)
	return word == "1", err
}

func integers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " ")
}
