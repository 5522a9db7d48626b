package virtual

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/audit"
	store "github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// viewEvery is how old a view may be that a replica goes by.
const viewEvery = time.Second

// evidence is what audits have shown of every kind of request: the gateway's own stores, one for each replica, which share
// one log as if it were in Redis.
type evidence struct {
	lab     *lab
	log     *store.Memory
	book    *store.Store // of nobody: what is known at the end, and for refits
	known   map[risk.Key]*risk.State
	changes []change
	first   map[risk.Key]time.Duration // when a kind first had a certificate

	booked, closed int
}

// change is a threshold that came into force.
type change struct {
	at        time.Duration
	bucket    string // of the plain score
	version   int    // of the score
	threshold float64
	serves    bool
}

func newEvidence(l *lab) *evidence {
	e := &evidence{lab: l, log: l.earlier.log.Copy(l.clock.Now, l.redis.Away), first: map[risk.Key]time.Duration{}}
	e.book = e.newStore()
	return e
}

// newStore returns the store of one replica.
func (e *evidence) newStore() *store.Store {
	return store.New(store.Options{
		Memory: e.log, Rule: func(string) risk.Rule { return e.rule() }, Now: e.lab.clock.Now,
		Stale: func(string) time.Duration { return e.lab.values.Tiers.Risk.MaxStaleness },
	})
}

func (e *evidence) rule() risk.Rule { return e.lab.values.Tiers.Risk.Rule }

// states are the states of all kinds; without Redis those that were read last.
func (e *evidence) states() map[risk.Key]*risk.State {
	all, err := e.book.All(context.Background())
	if err != nil {
		return e.known
	}
	e.known = map[risk.Key]*risk.State{}
	for i := range all {
		e.known[all[i].Key] = &all[i].State
	}
	return e.known
}

// note takes down which threshold is in force. Of a score that does not judge drafts none is.
func (e *evidence) note(k risk.Key, by *store.Store) {
	cfg := &e.lab.values.Tiers
	version := cfg.Accept.ScoreVersion()
	if !cfg.Mode.Audited() || k != plan.ScoredBy(k, version) {
		return
	}
	v, now := by.View(k), e.lab.clock.Elapsed()
	k = plan.ScoredBy(k, 0)
	if _, ok := e.first[k]; v.Serves() && !ok {
		e.first[k] = now
	}
	e.add(change{now, k.TrafficClass, version, v.Threshold, v.Serves()})
}

// noteSettings takes down the thresholds of settings that come into force.
func (e *evidence) noteSettings() {
	cfg := &e.lab.values.Tiers
	if cfg.Mode.Audited() {
		for _, k := range slices.SortedFunc(maps.Keys(e.states()), func(a, b risk.Key) int { return cmp.Compare(a.String(), b.String()) }) {
			e.note(k, e.book)
		}
		return
	}
	if e.lab.sample == nil {
		return
	}
	for _, bucket := range e.lab.sample.buckets() {
		e.add(change{e.lab.clock.Elapsed(), bucket, 0, float64(cfg.Accept.Threshold), cfg.Mode == plan.ModeConfidence})
	}
}

// add adds a change, unless it is none.
func (e *evidence) add(next change) {
	for i := len(e.changes) - 1; i >= 0; i-- {
		if c := &e.changes[i]; c.bucket == next.bucket {
			if c.serves == next.serves && c.threshold == next.threshold && c.version == next.version {
				return
			}
			break
		}
	}
	e.changes = append(e.changes, next)
}

// evidenceView is the evidence as a replica sees it. It implements [audit.Evidence].
type evidenceView struct {
	*store.Store
	all  *evidence
	read time.Time // when the log was read, or that failed
}

var _ audit.Evidence = (*evidenceView)(nil)

// View implements [audit.Evidence]. It reads the log first if it is due.
func (e *evidenceView) View(k risk.Key) risk.View {
	if now := e.Now(); now.Sub(e.read) >= viewEvery {
		e.tick()
	}
	return e.Store.View(k)
}

// tick reads the log, and writes the counts of warm-ups.
func (e *evidenceView) tick() {
	e.read = e.Now()
	_ = e.Tick(context.Background()) // while Redis is away
}

// Open implements [audit.Evidence].
func (e *evidenceView) Open(ctx context.Context, a risk.Audit) (risk.OpenResult, error) {
	result, err := e.Store.Open(ctx, a)
	e.all.note(a.Key, e.Store)
	return e.counted(result), err
}

// OpenWarmup implements [audit.Evidence].
func (e *evidenceView) OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	result, err := e.Store.OpenWarmup(ctx, k, ticket)
	return e.counted(result), err
}

func (e *evidenceView) counted(result risk.OpenResult) risk.OpenResult {
	if result == risk.Opened {
		e.all.booked++
	}
	return result
}

// Close implements [audit.Evidence].
func (e *evidenceView) Close(ctx context.Context, k risk.Key, ticket string, bad bool) error {
	err := e.Store.Close(ctx, k, ticket, bad)
	if err == nil {
		e.all.closed++
	}
	e.all.note(k, e.Store)
	return err
}
