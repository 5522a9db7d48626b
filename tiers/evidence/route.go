package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/risk"
)

// route is what this replica knows of the log of one route. Who has busy may read it, and changes it with [Store.mu]; with
// that mutex alone it may be read.
type route struct {
	name string
	busy chan struct{} // has one element while somebody has it

	fold *risk.Fold // nil: unknown
	at   time.Time  // the fold had all entries then
	lost *risk.Fold // what was read before the log was lost, until evidence begins anew; nil: it was not lost
}

// errLost means that a log is not the one that was read before.
var errLost = errors.New("the log is not the one that was read before, or has no beginning")

// lose ends what is known of a route. The caller has it.
func (st *Store) lose(r *route) error {
	err := fmt.Errorf("evidence: %.200s: %w", r.name, errLost)
	st.metrics.note(problemLost, err)
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.lost = cmp.Or(r.fold, r.lost); r.lost == nil {
		r.lost = &risk.Fold{}
	}
	r.fold = nil
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// route returns a route; the caller holds mu. There are those of the configuration, and of others that Redis lists as many as
// there is room for.
func (st *Store) route(name string) *route {
	r := st.routes[name]
	if r == nil {
		r = &route{name: name, busy: make(chan struct{}, 1)}
		st.routes[name] = r
	}
	return r
}

// ready makes sure that the evidence of a route is known. If it was lost, and no replica has begun it anew since, it does
// so. The caller has the route.
func (st *Store) ready(ctx context.Context, r *route) error {
	if r.fold != nil {
		return nil
	}
	f, err := st.log.Snapshot(ctx, r.name)
	if errors.Is(err, errForeign) {
		st.metrics.note(problemForeign, fmt.Errorf("the snapshot of %.200s: %w", r.name, err))
	}
	var asked time.Time
	if err == nil {
		_, asked, err = st.read(ctx, r.name, f, nil)
	}
	switch {
	case errors.Is(err, errLost) && r.lost == nil:
		_ = st.lose(r) // counted
	case err != nil && !errors.Is(err, errLost):
		return st.failed(err)
	}
	if err != nil || r.lost != nil && f.Began.Compare(r.lost.Last) <= 0 {
		return st.begin(ctx, r)
	}
	st.adopt(r, f, asked)
	return nil
}

// adopt puts what a log came to at a time in force. The caller has the route.
func (st *Store) adopt(r *route, f *risk.Fold, at time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r.fold, r.at, r.lost = f, at, nil
}

// begin begins the evidence of a route. The caller has it.
func (st *Store) begin(ctx context.Context, r *route) error {
	e := risk.Entry{Do: risk.DoBegin}
	if r.lost != nil {
		e.Again, e.Record = true, r.lost.Record
	}
	f, asked := &risk.Fold{}, st.Now()
	added, _, err := st.log.exchange(ctx, r.name, &e, risk.ID{MS: math.MaxInt64})
	if err != nil {
		return st.failed(err)
	}
	_, _ = f.Apply(r.name, &risk.Message{ID: added, Entry: e}) // it is valid
	st.adopt(r, f, asked)
	return nil
}

// read appends an entry, unless it is nil, and folds all that the log has. It returns the entry's result, and when it asked
// last. errLost says that the entries do not go on where the fold ends, or that nothing begins the evidence.
func (st *Store) read(ctx context.Context, name string, f *risk.Fold, e *risk.Entry) (result string, asked time.Time, err error) {
	var own risk.ID
	for more := true; more; e = nil {
		asked = st.Now()
		added, found, err := st.log.exchange(ctx, name, e, f.Last)
		if err == nil && f.Last != (risk.ID{}) && (len(found) == 0 || found[0].ID != f.Last) {
			err = errLost
		}
		if err != nil {
			return "", asked, err
		}
		own = cmp.Or(added, own)
		result = cmp.Or(st.apply(name, f, found, own), result)
		more = len(found) == page
	}
	if f.Last != (risk.ID{}) && f.Began == (risk.ID{}) {
		err = errLost
	}
	return result, asked, err
}

// apply folds entries, and returns the result of one of them, "" if it is not there.
func (st *Store) apply(name string, f *risk.Fold, found []risk.Message, own risk.ID) (result string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range found {
		m := &found[i]
		if m.ID == f.Last {
			continue
		}
		of, err := f.Apply(name, m)
		if err != nil {
			st.metrics.note(problemForeign, err)
		}
		if m.ID == own {
			result = of
		}
	}
	return result
}

// advance appends an entry, unless it is nil, folds all that the log has, and returns the entry's result. The caller has
// the route.
func (st *Store) advance(ctx context.Context, r *route, e *risk.Entry) (string, error) {
	result, asked, err := st.read(ctx, r.name, r.fold, e)
	if errors.Is(err, errLost) {
		return "", st.lose(r)
	}
	if err == nil {
		st.adopt(r, r.fold, asked)
	}
	return result, st.failed(err)
}

// detached returns the context of a call.
func (st *Store) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), st.patience)
}

// append writes an entry about a route, folds the log up to it, and returns its result.
func (st *Store) append(ctx context.Context, name string, e risk.Entry) (string, error) {
	if err := e.Check(name); err != nil {
		return "", err
	}
	ctx, cancel := st.detached(ctx)
	defer cancel()
	st.mu.Lock()
	r := st.route(name)
	st.mu.Unlock()
	if err := r.take(ctx); err != nil {
		return "", st.failed(err)
	}
	defer r.leave()
	if err := st.ready(ctx, r); err != nil {
		return "", err
	}
	if r.fold.Began == (risk.ID{}) { // another replica may have begun it in the last second
		if _, err := st.advance(ctx, r, nil); err != nil {
			return "", err
		}
	}
	if r.fold.Began == (risk.ID{}) {
		if err := st.begin(ctx, r); err != nil {
			return "", err
		}
	}
	return st.advance(ctx, r, &e)
}

// take waits for the route, until ctx ends.
func (r *route) take(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *route) leave() { <-r.busy }

// Tick writes the counts of warm-ups and reads what is new in all logs. What Redis refuses of one route does not end it for
// the others.
func (st *Store) Tick(ctx context.Context) error {
	st.tellDrafted(ctx)
	routes, err := st.list(ctx)
	for _, r := range routes {
		if isAway(err) {
			return err
		}
		err = cmp.Or(st.refresh(ctx, r), err)
	}
	return err
}

// refresh reads what is new in a route's log, or all of it if that is not known.
func (st *Store) refresh(ctx context.Context, r *route) error {
	if err := r.take(ctx); err != nil {
		return st.failed(err)
	}
	defer r.leave()
	call, cancel := context.WithTimeout(ctx, loadTime)
	err := st.ready(call, r)
	cancel()
	if err == nil {
		call, cancel = st.detached(ctx)
		_, err = st.advance(call, r, nil)
		cancel()
	}
	if err == nil {
		err = st.save(ctx, r)
	}
	return err
}

// isAway reports whether an error is that Redis does not answer at all.
func isAway(err error) bool {
	return err != nil && !calls.Answered(err) && !errors.Is(err, errLost) && !errors.Is(err, errTooLong)
}

// list returns all routes in a fixed order, so that two ticks take them in the same, after it has read which Redis has.
func (st *Store) list(ctx context.Context) ([]*route, error) {
	ctx, cancel := st.detached(ctx)
	defer cancel()
	asked := st.Now()
	names, err := st.log.List(ctx)
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, name := range names {
		if len(st.routes) < maxRoutes {
			st.route(name) // a foreign one has no valid entries
		}
	}
	if err == nil {
		st.listed = asked
	}
	return slices.SortedFunc(maps.Values(st.routes), func(a, b *route) int { return cmp.Compare(a.name, b.name) }), st.failed(err)
}

// save writes a snapshot if it is time. Each replica does so at one of four ticks, so that hardly ever two do. The caller has
// the route.
func (st *Store) save(ctx context.Context, r *route) error {
	if r.fold.Unsaved < saveEvery || rand.IntN(4) != 0 {
		return nil
	}
	ctx, cancel := st.detached(ctx)
	defer cancel()
	if err := st.log.Save(ctx, r.name, r.fold); err != nil {
		return st.failed(err)
	}
	_, err := st.advance(ctx, r, &risk.Entry{Do: risk.DoSaved})
	return err
}
