package risk

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Deed is what an entry of a log tells of. Entries with another one are passed over.
type Deed string

// The deeds.
const (
	DoBegin  Deed = "begin"  // the evidence of the route begins: what is before it does not count
	DoOpen   Deed = "open"   // an audit was opened
	DoWarmup Deed = "warmup" // the audit of a draft that the warm-up served was opened
	DoClose  Deed = "close"  // an audit has an outcome
	DoDrafts Deed = "drafts" // drafts of a warm-up
	DoPrior  Deed = "prior"  // past audits become the first evidence
	DoReset  Deed = "reset"  // a traffic class is forgotten
	DoRefits Deed = "refits" // the record of the route's refits is replaced
	DoSaved  Deed = "saved"  // a snapshot was written
)

// Entry is one entry of a route's log. A traffic class names the models and rules behind it: the label, and the version of
// the score.
type Entry struct {
	Do     Deed    `json:"do"`
	Class  string  `json:"class,omitempty"` // traffic class
	Rule   Rule    `json:"rule,omitzero"`
	Ticket string  `json:"ticket,omitempty"`
	Bad    bool    `json:"bad,omitempty"`
	Audit  *Audit  `json:"audit,omitempty"`
	Made   int     `json:"made,omitempty"`
	Served int     `json:"served,omitempty"`
	Prior  *Import `json:"prior,omitempty"`
	Again  bool    `json:"again,omitempty"` // of begin: earlier evidence was lost
	Was    string  `json:"was,omitempty"`   // digest of the record that is replaced
	Record string  `json:"record,omitempty"`
}

// Check returns what is wrong with an entry of a route. The fold relies on it.
func (e *Entry) Check(route string) error {
	if e.Do == DoBegin || e.Do == DoRefits || e.Do == DoSaved {
		return Key{Route: route, TrafficClass: "-"}.Check()
	}
	if err := (Key{Route: route, TrafficClass: e.Class}).Check(); err != nil || e.Do == DoReset {
		return err
	}
	if err := e.Rule.Check(); err != nil {
		return err
	}
	switch e.Do {
	case DoOpen:
		if e.Audit == nil || e.Audit.Chance == 0 {
			return errors.New("risk: an audit that was not drawn at random is no evidence")
		}
		return e.Audit.Check()
	case DoWarmup, DoClose:
		if !IsTicket(e.Ticket) {
			return fmt.Errorf("risk: %.80q is no ticket", e.Ticket)
		}
	case DoDrafts:
		if min(e.Made, e.Served) < 0 || max(e.Made, e.Served) > 1e9 {
			return errors.New("risk: no counts of drafts")
		}
	case DoPrior:
		return e.Prior.Check()
	default:
		return fmt.Errorf("risk: %.80q is nothing that can be done", e.Do)
	}
	return nil
}

// Message is an entry of a log.
type Message struct {
	ID    ID
	Entry Entry
	Err   error // it is foreign
}

// ID identifies an entry of a route's log: Redis' time in ms, and a number. Later entries have larger ones.
type ID struct{ MS, Seq uint64 }

// String returns the ID as Redis writes it.
func (id ID) String() string { return fmt.Sprintf("%d-%d", id.MS, id.Seq) }

// Compare orders IDs as their log does.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.MS, other.MS), cmp.Compare(id.Seq, other.Seq))
}

// Time is when an entry was written. Entries of one millisecond are a microsecond apart, because that is the version of a
// grid.
func (id ID) Time() time.Time {
	return time.UnixMicro(int64(min(id.MS, 1<<42))*1000 + int64(min(id.Seq, 999))).UTC()
}

// ParseID reads an ID as Redis writes it.
func ParseID(text string) (id ID, err error) {
	ms, seq, _ := strings.Cut(text, "-")
	id.MS, err = strconv.ParseUint(ms, 10, 64)
	if err == nil {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return id, err
}

// KeyState is all that is known of a key.
type KeyState struct {
	Key   Key
	State State
	Rule  Rule
}

// LogEntry is one audit with its outcome. As JSON it is a line of foregate risk export; names and meanings of the fields
// are stable.
type LogEntry struct {
	Audit
	When   time.Time `json:"when"`   // opening time by Redis' clock
	Served bool      `json:"served"` // the score was at least the threshold
	Label  string    `json:"label"`  // Good, Bad or Lost
}

// Labels of audits.
const (
	Good = "good" // the target stands by the draft
	Bad  = "bad"
	Lost = "lost" // its outcome is unknown, or it is in progress
)

// LabelOf returns Bad or Good.
func LabelOf(bad bool) string {
	if bad {
		return Bad
	}
	return Good
}

// Check returns the field that no audit has in this way, and what it should be; nil if there is none.
func (e *LogEntry) Check() error {
	switch {
	case e.Label != Good && e.Label != Bad && e.Label != Lost:
		return errors.New("label: want good, bad or lost")
	case e.When.Year() < 1970 || e.When.Year() > 2200:
		return errors.New("when: want a time such as 2006-01-02T15:04:05Z")
	}
	return e.Audit.Check()
}

// IsFullRange reports whether the audit was of a random one of all drafts, whatever its score.
func (e *LogEntry) IsFullRange() bool { return e.Floor <= -Unreachable }
