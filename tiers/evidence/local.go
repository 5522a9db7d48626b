package evidence

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// keptFor is how long an unused key is kept, and fullFor the same if there are [maxKeys].
const keptFor, fullFor = 7 * 24 * time.Hour, time.Hour

// local stores the evidence in one process, in place of Redis and the scripts.
type local struct {
	now func() time.Time

	mu     sync.Mutex
	kinds  map[risk.Key]*kind
	log    []LogEntry // a ring of half of maxLog: an entry is an audit with its outcome
	next   int        // index of the oldest once it is full
	places map[place]int
	refits map[string]string // records by route, at most maxKeys
}

// kind is the state of one key.
type kind struct {
	fullState
	used time.Time
}

// of returns the state of a key, and marks it as used; nil if there are too many keys.
func (l *local) of(k risk.Key) *kind {
	now := l.now()
	if l.kinds == nil {
		l.kinds = make(map[risk.Key]*kind)
	}
	known := l.kinds[k]
	if known == nil {
		if len(l.kinds) >= maxKeys {
			return nil
		}
		known = &kind{}
		l.kinds[k] = known
	}
	known.used = now
	return known
}

func (l *local) view(r risk.Rule, k risk.Key) risk.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, room := &risk.State{}, len(l.kinds) < maxKeys
	if known := l.kinds[k]; known != nil {
		s, room = &known.State, true
	}
	v := s.View(r)
	v.Seen, v.New = l.now(), room && s.Warmup.Began == 0
	return v
}

func (l *local) open(r risk.Rule, a risk.Audit) (risk.OpenResult, error) {
	if err := checked(r, a.Key); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.of(a.Key)
	if known == nil {
		return risk.Full, nil
	}
	fate := known.Open(r, a.Decision, a.Score, a.Ticket, l.now())
	if fate == risk.Opened {
		l.opened(a)
	}
	return fate, nil
}

func (l *local) openWarmup(r risk.Rule, k risk.Key, ticket string) (risk.OpenResult, error) {
	if err := checked(r, k); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.of(k)
	if known == nil {
		return risk.Full, nil
	}
	return known.OpenWarmup(r, ticket, l.now()), nil
}

// drafted records drafts of a warm-up.
func (l *local) drafted(r risk.Rule, k risk.Key, c draftCount) {
	if checked(r, k) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.of(k); known != nil {
		known.Drafted(r, c.drafts, c.served, l.now())
	}
}

// checked returns what is wrong with a rule or a key.
func checked(r risk.Rule, k risk.Key) error {
	if _, err := nameOf(k); err != nil {
		return err
	}
	return checkRule(r)
}

// close reports whether an audit was in progress, and whether its draft was served by the warm-up.
func (l *local) close(r risk.Rule, k risk.Key, ticket string, bad bool) (was, warmup bool, err error) {
	if err := checked(r, k); err != nil {
		return false, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.kinds[k]
	if known == nil {
		return false, false, nil
	}
	known.used = l.now()
	open := known.Warmup.Open
	if !known.Close(r, ticket, bad) {
		return false, false, nil
	}
	if at, ok := l.places[place{k, ticket}]; ok {
		l.log[at].Label = labelOf(bad)
	}
	return true, known.Warmup.Open < open, nil
}

// opened adds an audit to the log.
func (l *local) opened(a risk.Audit) {
	e := LogEntry{
		When: l.now(), Key: a.Key, Ticket: a.Ticket, Score: a.Score, Floor: a.Floor, Threshold: a.Threshold, Chance: a.Chance, Served: a.Score >= a.Threshold,
		Features: slices.Clone(a.Features), Tokens: a.Tokens, Version: a.Version, Alarm: a.Alarm, Label: Lost, Request: a.Request,
	}
	if l.places == nil {
		l.places = make(map[place]int)
	}
	at := l.next
	if len(l.log) < maxLog/2 {
		at = len(l.log)
		l.log = append(l.log, e)
	} else {
		if old := (place{l.log[at].Key, l.log[at].Ticket}); l.places[old] == at {
			delete(l.places, old)
		}
		l.log[at] = e
		l.next = (at + 1) % len(l.log)
	}
	l.places[place{a.Key, a.Ticket}] = at
}

// entries returns a copy of the log, the oldest first.
func (l *local) entries() []LogEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]LogEntry, 0, len(l.log))
	return append(append(out, l.log[l.next:]...), l.log[:l.next]...)
}

func (l *local) reset(k risk.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.kinds, k)
}

// tidy deletes unused keys.
func (l *local) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := keptFor
	if len(l.kinds) >= maxKeys {
		kept = fullFor
	}
	for k, known := range l.kinds {
		if l.now().Sub(known.used) > kept {
			delete(l.kinds, k)
		}
	}
}

func (l *local) all(rule func(string) risk.Rule) []KeyState {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]KeyState, 0, len(l.kinds))
	for k, known := range l.kinds {
		out = append(out, KeyState{k, splitKey(&known.State), rule(k.Route), known.used})
	}
	slices.SortFunc(out, func(a, b KeyState) int { return compare(a.Key, b.Key) })
	return out
}

// splitKey returns a copy of a state that shares nothing, without the audits in progress.
func splitKey(s *risk.State) risk.State {
	return risk.State{
		Version: s.Version, Alarm: s.Alarm, Grid: slices.Clone(s.Grid), Scores: slices.Clone(s.Scores), MaxWrongRate: s.MaxWrongRate, ErrorProbability: s.ErrorProbability,
		Op: s.Op, Epochs: slices.Clone(s.Epochs), Drift: s.Drift, Infeasible: s.Infeasible, Cold: s.Cold,
		Outcomes: s.Outcomes, Warmup: s.Warmup,
	}
}

// certify makes audits the first evidence of a key.
func (l *local) certify(r risk.Rule, k risk.Key, p risk.Import) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.of(k)
	return known != nil && known.ApplyImport(r, p, l.now())
}

func compare(a, b risk.Key) int {
	return cmp.Or(strings.Compare(a.Route, b.Route), strings.Compare(a.TrafficClass, b.TrafficClass))
}
