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

// marker is the content of MarkerKey: a random id, and a counter that replicas increase when they see the
// settings change. A Redis that came back empty has none, and one that came back with older data has a lower
// counter. The zero value is none.
type marker struct {
	id      string
	changes int64
}

// follows reports whether data with this marker are the same as, or newer than, those with an earlier one.
func (m marker) follows(earlier marker) bool {
	return earlier.id == "" || m.id == earlier.id && m.changes >= earlier.changes
}

// acceptedPrefix begins the id of a marker with which an operator accepted a loss.
const acceptedPrefix = "accepted-"

// accepts reports whether this marker accepts the loss.
func (m marker) accepts(l *dataLoss) bool {
	return strings.HasPrefix(m.id, acceptedPrefix) && m.id != l.Marker
}

// dataLoss is the change of the settings when Redis lost data. Nobody intended it, so replicas undo it for
// themselves until an operator restores the settings or accepts the loss.
type dataLoss struct {
	Marker  string   `json:"marker"` // id of the mark afterwards; "" is none
	Changes []Change `json:"changes"`
}

// maxLoss bounds a loss stored in Redis, in bytes.
const maxLoss = keptEntry

// pending are the changes that were not repaired yet: the fields are as the loss left them.
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

// parseLoss parses a loss that a replica wrote. Fields that the log could not store are ignored.
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

// knownState is what a replica remembers of the settings. The zero value knows nothing, as after the start.
type knownState struct {
	fields map[string]string // in force
	mark   marker
	loss   *dataLoss // neither restored nor accepted
}

// readState is what a replica has read.
type readState struct {
	fields        map[string]string
	mark          marker
	publishedLoss *dataLoss // by the replicas
}

// merge computes the new known state. A field that changed together with the loss of data stays in force. If
// Redis has older data of the same history, this is every changed field. If it has other data, only missing
// fields stay in force, because the others were set since. A loss that other replicas published has
// precedence over this replica's finding, so that all have the same settings in force.
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

// mustReread reports whether the hash must be read again, once, because the marker that was read after it
// does not follow the known one: Redis may have lost the data in between, and another replica may have made a
// new marker.
func (k knownState) mustReread(m marker) bool { return !m.follows(k.mark) }

// shouldCount reports whether the replica must count a change in the marker, if its state changes from before
// to k: it saw a change, or there are settings without a marker.
func (k knownState) shouldCount(before knownState, f readState) bool {
	if k.loss != nil || before.loss != nil {
		return false
	}
	if f.mark.id == "" {
		return len(f.fields) > 0
	}
	return before.fields != nil && !maps.Equal(before.fields, k.fields)
}

// parseMark parses a marker; an invalid one is none.
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
