package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/words"
)

// Entry is one change of the settings in the log.
type Entry struct {
	ID      string    `json:"id"`      // in the stream; it begins with Redis' time in milliseconds
	Version int64     `json:"version"` // of the settings after the change: 1, 2, …
	When    time.Time `json:"when"`    // by Redis' clock, in UTC
	Who     string    `json:"who"`     // Nobody for a change that bypassed the log
	Why     string    `json:"why"`
	Changes []Change  `json:"changes"` // sorted by name

	after map[string]string // the whole hash, as far as kept allows
}

// Nobody is the author of changes that bypassed the log.
const Nobody = "unknown"

// Change is the change of one field. Nil means not set.
type Change struct {
	Name string  `json:"name"`
	Old  *string `json:"old"`
	New  *string `json:"new"`
}

// Maximum sizes of a field and of a line, in bytes.
const (
	keptName  = 192
	keptValue = 256
	keptWho   = 80 // a token's name
	keptWhy   = 256
)

// maxVersion is above any real version, and the last integer that every JSON reader represents exactly.
const maxVersion = 1 << 53

// kept returns those fields of a hash that the log can store: text, and no longer than any setting. A [Store]
// never changes other fields, unless an operator unsets them.
func kept(h map[string]string) map[string]string {
	out := make(map[string]string, len(h))
	for name, value := range h {
		if keeps(name, value) {
			out[name] = value
		}
	}
	return out
}

func keeps(name, value string) bool {
	return len(name) <= keptName && len(value) <= keptValue && utf8.ValidString(name) && utf8.ValidString(value)
}

// differing lists the fields in which two hashes differ, sorted.
func differing(a, b map[string]string) []string {
	var names []string
	for name, value := range a {
		if !is(b, name, &value) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// changesOf lists the changes from a to b.
func changesOf(a, b map[string]string) []Change {
	var out []Change
	for _, name := range differing(a, b) {
		c := Change{Name: name}
		if v, ok := a[name]; ok {
			c.Old = &v
		}
		if v, ok := b[name]; ok {
			c.New = &v
		}
		out = append(out, c)
	}
	return out
}

// undo returns fields as they were before the changes.
func undo(fields map[string]string, changes []Change) map[string]string {
	h := make(map[string]string, len(fields))
	maps.Copy(h, fields)
	for _, c := range changes {
		if c.Old == nil {
			delete(h, c.Name)
		} else {
			h[c.Name] = *c.Old
		}
	}
	return h
}

// is reports whether a field has a value; nil means not set.
func is(fields map[string]string, name string, value *string) bool {
	has, ok := fields[name]
	return ok == (value != nil) && (!ok || has == *value)
}

// values are the fields of an entry in the stream.
func (e Entry) values() ([]string, error) {
	changes, err1 := json.Marshal(e.Changes)
	after, err2 := json.Marshal(e.after)
	return []string{"version", strconv.FormatInt(e.Version, 10), "who", e.Who, "why", e.Why,
		"changes", string(changes), "settings", string(after)}, errors.Join(err1, err2)
}

// parseEntry parses what values wrote.
func parseEntry(m redis.XMessage) (Entry, error) {
	word := func(name string) string {
		s, _ := m.Values[name].(string) // "" is refused below, where it may not be
		return s
	}
	ms, _, _ := strings.Cut(m.ID, "-")
	written, _ := strconv.ParseInt(ms, 10, 64) // Redis made the id
	e := Entry{ID: m.ID, When: time.UnixMilli(written).UTC(), Who: words.Clip(word("who"), keptWho), Why: words.Clip(word("why"), keptWhy)}
	version, err1 := strconv.ParseInt(word("version"), 10, 64)
	err2 := json.Unmarshal([]byte(word("changes")), &e.Changes)
	err3 := json.Unmarshal([]byte(word("settings")), &e.after)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Entry{}, fmt.Errorf("entry %s: %w", show(m.ID), err)
	}
	if version < 1 || version > maxVersion || e.Changes == nil || e.after == nil || len(e.after) > maxFields {
		return Entry{}, fmt.Errorf("entry %s: it has no changes, no version from 1 to 2^53, or not 0 to %d settings", show(m.ID), maxFields)
	}
	e.Version = version
	return e, nil
}
