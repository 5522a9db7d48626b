package virtual

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	store "github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// refitEvery is the time between two rounds of refits.
	refitEvery = time.Minute
	// maxLog is how many audits the log keeps.
	maxLog = 20_000
)

// auditLog is the log of audits that replicas share, the oldest first.
type auditLog struct {
	entries []store.LogEntry
	begun   map[string]int // number of each audit that has no outcome, by its ticket
	dropped int            // entries that were deleted
}

func (a *auditLog) opened(b risk.Audit, now time.Time) {
	if len(a.entries) >= maxLog {
		old := maxLog / 10
		a.entries, a.dropped = slices.Delete(a.entries, 0, old), a.dropped+old
	}
	if a.begun == nil {
		a.begun = map[string]int{}
	}
	a.begun[b.Ticket] = a.dropped + len(a.entries)
	a.entries = append(a.entries, store.LogEntry{
		When: now, Key: b.Key, Ticket: b.Ticket, Score: b.Score, Floor: b.Floor, Threshold: b.Threshold, Served: b.Score >= b.Threshold,
		Features: slices.Clone(b.Features), Tokens: b.Tokens, Version: b.Version, Alarm: b.Alarm, Label: "lost",
	})
}

func (a *auditLog) closed(ticket string, bad bool) {
	n, ok := a.begun[ticket]
	delete(a.begun, ticket)
	if n -= a.dropped; !ok || n < 0 {
		return
	}
	if a.entries[n].Label = "good"; bad {
		a.entries[n].Label = "bad"
	}
}

// refits are the refits of the route's score, and what the replicas share about them: the gateway's own [refit.Refitter],
// whose rounds are events. It implements [refit.Book].
type refits struct {
	*refit.Refitter
	lab     *lab
	record  string
	scores  map[int]*accept.ScoreMap // that were in force, by version
	samples map[int]*draftSample     // by version of the score
}

var _ refit.Book = (*refits)(nil)

func newRefits(l *lab) *refits {
	r := &refits{lab: l, scores: map[int]*accept.ScoreMap{}, samples: map[int]*draftSample{}}
	r.Refitter = refit.New(refit.Options{
		Book: r, Routes: func() []string { return []string{route} }, Who: "lab",
		Route: func(string) refit.Route {
			c := &l.values.Tiers
			return refit.Route{Auto: c.Risk.Refit && c.Mode.Audited(), Rule: c.Risk.Rule}
		},
	})
	return r
}

// begin begins the rounds.
func (r *refits) begin() {
	if c := &r.lab.values.Tiers; c.Risk.Refit && c.Mode.Audited() {
		r.lab.clock.After(refitEvery, r.tick)
	}
}

func (r *refits) tick() {
	if !r.lab.redis.Away() {
		was := r.Score(route)
		r.Round(context.Background())
		if is := r.Score(route); is != nil && (was == nil || was.Version != is.Version) {
			r.scores[is.Version] = is
			r.lab.values.Tiers.Risk.ScoreVersion, r.lab.values.Tiers.Accept.ScoreMap = is.Version, is
			for k := range r.lab.evidence.states {
				r.lab.evidence.note(k)
			}
		}
	}
	if r.lab.clock.Elapsed() < r.lab.scenario.Duration {
		r.lab.clock.After(refitEvery, r.tick)
	}
}

// sample is what drafts are like by a version of the score.
func (r *refits) sample(version int) *draftSample {
	if version == 0 {
		return r.lab.sample
	}
	s := r.samples[version]
	if s == nil {
		s = r.lab.sample.scoredBy(r.scores[version])
		r.samples[version] = s
	}
	return s
}

// Log implements [refit.Book].
func (r *refits) Log(_ context.Context, visit func(store.LogEntry) error) error {
	for _, e := range r.lab.evidence.log.entries {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// All implements [refit.Book].
func (r *refits) All(context.Context) ([]store.KeyState, error) {
	var all []store.KeyState
	for k, s := range r.lab.evidence.states {
		all = append(all, store.KeyState{Key: k, State: *s, Rule: r.lab.evidence.rule(), Seen: r.lab.clock.Now()})
	}
	slices.SortFunc(all, func(a, b store.KeyState) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return all, nil
}

// LeaseRefits implements [refit.Book]: the lab's replicas are one.
func (r *refits) LeaseRefits(context.Context, string, time.Duration) (bool, error) { return true, nil }

// Refits implements [refit.Book].
func (r *refits) Refits(_ context.Context, routes []string) ([]string, error) {
	return slices.Repeat([]string{r.record}, len(routes)), nil
}

// WriteRefit implements [refit.Book].
func (r *refits) WriteRefit(_ context.Context, _, _, next string) (bool, error) {
	r.record = next
	return true, nil
}

// Certify implements [refit.Book].
func (r *refits) Certify(_ context.Context, k risk.Key, p risk.Import) (bool, error) {
	return r.lab.evidence.state(k).ApplyImport(r.lab.evidence.rule(), p, r.lab.clock.Now()), nil
}

// says is how the refits went, for the notes of a case; "" without any.
func (r *refits) says() string {
	p := r.Progress(route)
	if p.Last == 0 {
		return ""
	}
	return strconv.Itoa(p.Last) + " scores fitted, at the end version " + strconv.Itoa(p.Live.Version) + " judges"
}
