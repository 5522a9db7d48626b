package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Open records an audit as bad before its outcome is known. The audit must have been drawn at random. Open waits for Redis
// for at most a second, even if ctx ends. An error that is not [ErrAway] means that the audit is invalid.
func (st *Store) Open(ctx context.Context, a risk.Audit) (risk.OpenResult, error) {
	fate, err := st.append(ctx, a.Route, risk.Entry{Do: risk.DoOpen, Class: a.TrafficClass, Rule: st.rule(a.Key), Audit: &a})
	st.count(a.Key, fate, err)
	return risk.OpenResult(fate), err
}

// count counts an audit that ended, or that was not opened. The series of the warm-up tell of its audits.
func (st *Store) count(k risk.Key, label string, err error) {
	switch {
	case errors.Is(err, ErrAway):
		label = labelAway
	case err != nil, label == string(risk.Opened), label == risk.Done:
		return
	}
	st.metrics.audits.WithLabelValues(k.Route, label).Inc()
}

// OpenWarmup records the audit of a draft that the warm-up of a key served, as bad before its outcome is known.
// [Store.Close] ends it. Errors are those of [Store.Open].
func (st *Store) OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	fate, err := st.append(ctx, k.Route, risk.Entry{Do: risk.DoWarmup, Class: k.TrafficClass, Rule: st.rule(k), Ticket: ticket})
	return risk.OpenResult(fate), err
}

// Close ends a recorded audit. If the audit is not in progress any more, nothing changes; this is no error.
func (st *Store) Close(ctx context.Context, k risk.Key, ticket string, bad bool) error {
	label, err := st.append(ctx, k.Route, risk.Entry{Do: risk.DoClose, Class: k.TrafficClass, Rule: st.rule(k), Ticket: ticket, Bad: bad})
	st.count(k, label, err)
	return err
}

// Reset forgets a key: its grid, its evidence and the audits in progress, but not that its warm-up began. Earlier decisions
// become stale.
func (st *Store) Reset(ctx context.Context, k risk.Key) error {
	_, err := st.append(ctx, k.Route, risk.Entry{Do: risk.DoReset, Class: k.TrafficClass})
	return err
}

// Certify makes past audits the first evidence of a key. It reports false if the key has some.
func (st *Store) Certify(ctx context.Context, k risk.Key, p risk.Import) (bool, error) {
	result, err := st.append(ctx, k.Route, risk.Entry{Do: risk.DoPrior, Class: k.TrafficClass, Rule: st.rule(k), Prior: &p})
	return result == risk.Done, err
}

// maxRecord is the largest record of refits, in bytes.
const maxRecord = maxEntry * 3 / 4 // a quote takes two bytes in an entry

// WriteRefit replaces the record of a route's refits. It reports false if the record is not was any more.
func (st *Store) WriteRefit(ctx context.Context, route, was, next string) (bool, error) {
	if len(next) > maxRecord {
		return false, fmt.Errorf("evidence: a record of %d bytes, want %d at most", len(next), maxRecord)
	}
	result, err := st.append(ctx, route, risk.Entry{Do: risk.DoRefits, Was: risk.Digest(was), Record: next})
	return result == risk.Done, err
}

// Refit returns the record of a route's refits, as this replica knows it; "" is none. Its content is opaque to this package.
func (st *Store) Refit(route string) string {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if r := st.routes[route]; r != nil && r.fold != nil {
		return r.fold.Record
	}
	return ""
}

// All returns the states of every key that has any evidence, sorted by key.
func (st *Store) All(ctx context.Context) ([]risk.KeyState, error) {
	if err := st.Tick(ctx); err != nil {
		return nil, err
	}
	return st.states(), nil
}

// states returns the states of every key that has any evidence, as this replica knows them, sorted by key.
func (st *Store) states() (out []risk.KeyState) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	for name, r := range st.routes {
		if r.fold == nil {
			continue
		}
		for class, k := range r.fold.Kinds {
			if s := k.Copy(); s.Version != 0 || s.Alarm != 0 || len(s.Scores) > 0 || s.Warmup.Drafts+s.Warmup.Audits > 0 {
				key := risk.Key{Route: name, TrafficClass: class}
				out = append(out, risk.KeyState{Key: key, State: s, Rule: st.rule(key)})
			}
		}
	}
	slices.SortFunc(out, byKey)
	return out
}

// Routes returns the routes that have a log, sorted.
func (st *Store) Routes(ctx context.Context) ([]string, error) {
	names, err := st.log.List(ctx)
	return names, st.failed(err)
}

// Audits returns the audits of a route's log, the oldest first, each with its outcome, without those that only taught a
// score. Foreign entries are skipped.
func (st *Store) Audits(ctx context.Context, route string) (all []risk.LogEntry, err error) {
	places := map[string]int{} // by ticket
	var last risk.ID
	for more := true; more && len(all) < 2*maxEntries; {
		call, cancel := st.detached(ctx)
		_, found, err := st.log.exchange(call, route, nil, last)
		cancel()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, st.failed(err)
		}
		for i := range found {
			m := &found[i]
			e := &m.Entry
			if m.ID == last || m.Err != nil || e.Check(route) != nil {
				continue
			}
			switch at, known := places[e.Ticket]; {
			case e.Do == risk.DoOpen && e.Audit.Version != 0 && e.Audit.Score >= e.Audit.Floor:
				places[e.Audit.Ticket] = len(all)
				all = append(all, risk.LogEntry{Audit: *e.Audit, When: m.ID.Time(), Served: e.Audit.Score >= e.Audit.Threshold, Label: risk.Lost})
			case e.Do == risk.DoClose && known && all[at].TrafficClass == e.Class && all[at].Label == risk.Lost:
				all[at].Label = risk.LabelOf(e.Bad)
			}
		}
		if more = len(found) == page; more {
			last = found[page-1].ID
		}
	}
	return all, nil
}

// draftCount is the number of drafts of a warm-up, and how many of them were served.
type draftCount struct{ made, served int }

// MaxUnsynced is how long Redis may be without the counts of warm-ups. After that the warm-ups serve risk.Nothing, because a
// Redis that accepts no counts records no audits either, although it still answers reads.
const MaxUnsynced = 10 * time.Second

// Drafted records a request during the warm-up of a key: the number of its drafts, and how many of them were served. It
// does not block: Redis is told within a second, or later if it does not answer.
func (st *Store) Drafted(k risk.Key, made, served int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if was, ok := st.drafted[k]; ok || len(st.drafted) < risk.MaxKinds {
		st.drafted[k] = draftCount{was.made + made, was.served + served}
	}
}

// tellDrafted writes the counts of warm-ups. What comes meanwhile is written the next time.
func (st *Store) tellDrafted(ctx context.Context) {
	now := st.Now()
	st.mu.RLock()
	counts := maps.Clone(st.drafted)
	st.mu.RUnlock()
	for k, c := range counts {
		_, err := st.append(ctx, k.Route, risk.Entry{Do: risk.DoDrafts, Class: k.TrafficClass, Rule: st.rule(k), Made: c.made, Served: c.served})
		if errors.Is(err, ErrAway) {
			return
		}
		st.mu.Lock()
		if was := st.drafted[k]; was == c {
			delete(st.drafted, k)
		} else {
			st.drafted[k] = draftCount{was.made - c.made, was.served - c.served}
		}
		st.mu.Unlock()
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.told = now
}
