package risk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"
)

// MaxKinds is the largest number of traffic classes of a route.
const MaxKinds = 1024

// Fold is what the log of a route comes to, up to an entry. It is a pure function of the entries and their ids: replicas
// that have folded the same log, from its beginning or from a snapshot, have the same. As JSON it is a snapshot, and
// all of it comes back from that.
type Fold struct {
	Began   ID                // the entry with which the evidence begins; zero: none yet, so no entry counts
	Again   bool              // that entry told of a loss
	Last    ID                // the last entry
	Unsaved int               // entries since the last snapshot
	Kinds   map[string]*State // by traffic class, at most MaxKinds
	Record  string            // of the refits
}

const (
	// keptFor is how long an unused kind is kept, and fullFor the same if there are too many.
	keptFor, fullFor = 7 * 24 * time.Hour, time.Hour
	// noWarmup is for how long after a loss no warm-up begins: what was lost may say that it is over.
	noWarmup = 24 * time.Hour
)

// Results of entries, beside OpenResult and the labels.
const (
	Done    = "done"
	Nothing = "nothing" // it changed nothing
)

// Apply folds the next entry of a route and returns its result. An error says that the entry is foreign or broken; it has
// no effect.
func (f *Fold) Apply(route string, m *Message) (result string, err error) {
	f.Last = m.ID
	e := &m.Entry
	if err = m.Err; err == nil {
		err = e.Check(route)
	}
	if err != nil {
		return Nothing, fmt.Errorf("entry %s: %w", m.ID, err)
	}
	f.Unsaved++
	now := m.ID.Time()
	switch {
	case e.Do == DoBegin:
		*f = Fold{Began: m.ID, Again: e.Again, Last: m.ID, Kinds: map[string]*State{}, Record: e.Record}
	case f.Began == ID{}, e.Do == DoRefits && Digest(f.Record) != e.Was:
		return Nothing, nil
	case e.Do == DoRefits:
		f.Record = e.Record
	case e.Do == DoSaved:
		f.Unsaved = 0
		f.tidy(now, keptFor)
	case e.Do == DoReset:
		f.reset(e.Class)
	default:
		return f.kindOf(e, now).apply(e, now), nil
	}
	return Done, nil
}

// IsWhole reports whether a fold that was stored is one that can be read and go on: other parts than these may be of any value.
func (f *Fold) IsWhole() bool {
	ok := f.Began != ID{} && f.Kinds != nil && len(f.Kinds) <= MaxKinds
	for _, s := range f.Kinds {
		if ok = ok && s != nil && s.Grid.IsValid(); !ok {
			return false
		}
		for i := range s.Epochs {
			ok = ok && s.Epochs[i].isWhole(len(s.Grid))
		}
		for _, a := range s.Tickets {
			ok = ok && a.Hi <= len(s.Grid) && (a.First > 0 || a.Warmup)
		}
	}
	return ok
}

// reset forgets a class, but not that its warm-up began.
func (f *Fold) reset(class string) {
	if s := f.Kinds[class]; s != nil {
		*s = State{Used: s.Used, Warmup: Warmup{Began: s.Warmup.Began, Ended: s.Warmup.Ended}}
	}
}

// kindOf returns the state of an entry's class; nil if it is unknown and must be, or there are too many.
func (f *Fold) kindOf(e *Entry, now time.Time) *State {
	s := f.Kinds[e.Class]
	if s != nil || e.Do == DoClose {
		return s
	}
	f.tidy(now, keptFor)
	if len(f.Kinds) >= MaxKinds {
		f.tidy(now, fullFor)
	}
	if len(f.Kinds) >= MaxKinds {
		return nil
	}
	s = &State{}
	if f.Again && now.Sub(f.Began.Time()) < noWarmup {
		s.Warmup = Warmup{Began: now.UnixMicro(), Ended: WarmupCertified}
	}
	f.Kinds[e.Class] = s
	return s
}

// tidy deletes kinds that were not used for some time.
func (f *Fold) tidy(now time.Time, kept time.Duration) {
	maps.DeleteFunc(f.Kinds, func(_ string, s *State) bool { return now.Sub(s.Used) > kept })
}

// apply folds an entry about the traffic class, which is nil if there is no room for it.
func (s *State) apply(e *Entry, now time.Time) string {
	switch {
	case s == nil && e.Do == DoClose:
		return Lost
	case s == nil:
		return string(Full)
	}
	s.Used = now
	switch e.Do {
	case DoOpen:
		return string(s.Open(e.Rule, e.Audit, now))
	case DoWarmup:
		return string(s.OpenWarmup(e.Rule, e.Ticket, now))
	case DoDrafts:
		s.Drafted(e.Rule, e.Made, e.Served, now)
	case DoPrior:
		if !s.ApplyImport(e.Rule, *e.Prior, now) {
			return Nothing
		}
	case DoClose:
		ofWarmup := s.Tickets[e.Ticket].Warmup
		switch known := s.Close(e.Rule, e.Ticket, e.Bad); {
		case !known:
			return Lost
		case !ofWarmup:
			return LabelOf(e.Bad)
		}
	}
	return Done
}

// Digest identifies a record, or another text that is stored.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
