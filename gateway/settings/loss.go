package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mark is what MarkerKey holds: a random id, and a count that replicas raise when they see the
// settings change. A Redis that came back empty has none, and one that came back with older data
// has a lower count. The zero value is none.
type mark struct {
	id      string
	changes int64
}

// follows reports whether data with this mark are those with an earlier one, or younger.
func (m mark) follows(earlier mark) bool {
	return earlier.id == "" || m.id == earlier.id && m.changes >= earlier.changes
}

// acceptedPrefix begins the id of a mark by which an operator accepted a loss.
const acceptedPrefix = "accepted-"

// settles reports whether an operator has accepted a loss by this mark.
func (m mark) settles(l *loss) bool {
	return strings.HasPrefix(m.id, acceptedPrefix) && m.id != l.Marker
}

// loss is what happened to the settings when Redis lost data: not by anybody's will, so replicas
// undo it for themselves until somebody restores or accepts.
type loss struct {
	Marker  string   `json:"marker"` // id of the mark afterwards; "" is none
	Changes []Change `json:"changes"`
}

// maxLoss bounds a loss in Redis, in bytes.
const maxLoss = keptEntry

// pending are the changes that nobody has made good yet: the fields are as the loss left them.
func (l *loss) pending(fields map[string]string) []Change {
	if l == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Changes), func(c Change) bool { return !is(fields, c.Name, c.New) })
}

// undo returns fields as they were before the changes.
func undo(fields map[string]string, changes []Change) map[string]string {
	return Entry{Changes: changes, after: fields}.before()
}

// parseLoss reads what a replica wrote. Only fields that the log could keep are believed.
func parseLoss(text string) (*loss, error) {
	if len(text) > maxLoss {
		return nil, fmt.Errorf("%s is longer than %d bytes", LossKey, maxLoss)
	}
	var l loss
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("%s: %w", LossKey, err)
	}
	if len(l.Changes) > 2*maxFields {
		return nil, errors.New(LossKey + " has too many changes")
	}
	for _, c := range l.Changes {
		if c.Old != nil && !keeps(c.Name, *c.Old) {
			return nil, errors.New(LossKey + " has a setting that is too long")
		}
	}
	return &l, nil
}

// known is what a replica remembers of the settings. The zero value knows nothing, as one that
// has just started.
type known struct {
	fields map[string]string // in force
	mark   mark
	loss   *loss // that is neither restored nor accepted
}

// found is what a replica has read.
type found struct {
	fields map[string]string
	mark   mark
	told   *loss // by the replicas
}

// meet decides what is known now. A field that has changed together with the loss of data stays
// in force: where the data are older ones of the same Redis, each that differs; where they are
// others, only one that is gone, because whatever is there was set since. What other replicas
// tell of a loss goes before what this one finds, so that all have the same in force.
func (k known) meet(f found) known {
	l := f.told
	switch {
	case l != nil:
	case !f.mark.follows(k.mark) && (f.mark.id == k.mark.id || !strings.HasPrefix(f.mark.id, acceptedPrefix)):
		l = &loss{Marker: f.mark.id, Changes: changesOf(kept(k.fields), kept(f.fields))}
		if f.mark.id != k.mark.id {
			l.Changes = slices.DeleteFunc(l.Changes, func(c Change) bool { return c.New != nil })
		}
	default:
		l = k.loss
	}
	if l != nil && f.mark.settles(l) {
		l = nil
	}
	lost := l.pending(f.fields)
	if len(lost) == 0 {
		return known{fields: f.fields, mark: f.mark}
	}
	return known{fields: undo(f.fields, lost), mark: f.mark, loss: l}
}

// outruns reports whether the hash is to be read again, once, because the marker that was read
// after it is not of the data that were known: Redis may have lost them in between, and another
// replica have made a new marker.
func (k known) outruns(m mark) bool { return !m.follows(k.mark) }

// counts reports whether the replica is to count a change in the marker, being the one that
// remembers before and has come to now: it saw one, or there is no marker of settings that are.
func (k known) counts(before known, f found) bool {
	if k.loss != nil || before.loss != nil {
		return false
	}
	if f.mark.id == "" {
		return len(f.fields) > 0
	}
	return before.fields != nil && !maps.Equal(before.fields, k.fields)
}

// parseMark reads a mark; what is not one is none.
func parseMark(id, changes any) mark {
	text, ok := id.(string)
	if !ok || text == "" {
		return mark{}
	}
	number, _ := changes.(string) // "" is no number
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		n = 0
	}
	return mark{text, n}
}
