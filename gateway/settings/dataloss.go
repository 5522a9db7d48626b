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

// marker is what MarkerKey holds: a random id, and a count that replicas raise when they see the
// settings change. A Redis that came back empty has none, and one that came back with older data
// has a lower count. The zero value is none.
type marker struct {
	id      string
	changes int64
}

// follows reports whether data with this mark are those with an earlier one, or younger.
func (m marker) follows(earlier marker) bool {
	return earlier.id == "" || m.id == earlier.id && m.changes >= earlier.changes
}

// acceptedPrefix begins the id of a mark by which an operator accepted a loss.
const acceptedPrefix = "accepted-"

// accepts reports whether an operator has accepted a loss by this mark.
func (m marker) accepts(l *dataLoss) bool {
	return strings.HasPrefix(m.id, acceptedPrefix) && m.id != l.Marker
}

// dataLoss is what happened to the settings when Redis lost data: not by anybody's will, so replicas
// undo it for themselves until somebody restores or accepts.
type dataLoss struct {
	Marker  string   `json:"marker"` // id of the mark afterwards; "" is none
	Changes []Change `json:"changes"`
}

// maxLoss bounds a loss in Redis, in bytes.
const maxLoss = keptEntry

// pending are the changes that nobody has made good yet: the fields are as the loss left them.
func (l *dataLoss) pending(fields map[string]string) []Change {
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
func parseLoss(text string) (*dataLoss, error) {
	if len(text) > maxLoss {
		return nil, fmt.Errorf("%s is longer than %d bytes", LossKey, maxLoss)
	}
	var l dataLoss
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

// knownState is what a replica remembers of the settings. The zero value knows nothing, as one that
// has just started.
type knownState struct {
	fields map[string]string // in force
	mark   marker
	loss   *dataLoss // that is neither restored nor accepted
}

// readState is what a replica has read.
type readState struct {
	fields        map[string]string
	mark          marker
	publishedLoss *dataLoss // by the replicas
}

// merge decides what is known now. A field that has changed together with the loss of data stays
// in force: where the data are older ones of the same Redis, each that differs; where they are
// others, only one that is gone, because whatever is there was set since. What other replicas
// tell of a loss goes before what this one finds, so that all have the same in force.
func (k knownState) merge(f readState) knownState {
	l := f.publishedLoss
	switch {
	case l != nil:
	case !f.mark.follows(k.mark) && (f.mark.id == k.mark.id || !strings.HasPrefix(f.mark.id, acceptedPrefix)):
		l = &dataLoss{Marker: f.mark.id, Changes: changesOf(kept(k.fields), kept(f.fields))}
		if f.mark.id != k.mark.id {
			l.Changes = slices.DeleteFunc(l.Changes, func(c Change) bool { return c.New != nil })
		}
	default:
		l = k.loss
	}
	if l != nil && f.mark.accepts(l) {
		l = nil
	}
	lost := l.pending(f.fields)
	if len(lost) == 0 {
		return knownState{fields: f.fields, mark: f.mark}
	}
	return knownState{fields: undo(f.fields, lost), mark: f.mark, loss: l}
}

// mustReread reports whether the hash is to be read again, once, because the marker that was read
// after it is not of the data that were known: Redis may have lost them in between, and another
// replica have made a new marker.
func (k knownState) mustReread(m marker) bool { return !m.follows(k.mark) }

// shouldCount reports whether the replica is to count a change in the marker, being the one that
// remembers before and has come to now: it saw one, or there is no marker of settings that are.
func (k knownState) shouldCount(before knownState, f readState) bool {
	if k.loss != nil || before.loss != nil {
		return false
	}
	if f.mark.id == "" {
		return len(f.fields) > 0
	}
	return before.fields != nil && !maps.Equal(before.fields, k.fields)
}

// parseMark reads a mark; what is not one is none.
func parseMark(id, changes any) marker {
	text, ok := id.(string)
	if !ok || text == "" {
		return marker{}
	}
	number, _ := changes.(string) // "" is no number
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		n = 0
	}
	return marker{text, n}
}
