package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
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

// timeOf is when an entry with this id was written.
func timeOf(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Maximum sizes of a field and of a line, in bytes.
const (
	keptName  = 192
	keptValue = 256
	keptWho   = 80 // a token's name
	keptWhy   = 256
	keptEntry = 1 << 20
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

// before is the hash before the entry's change.
func (e Entry) before() map[string]string {
	h := maps.Clone(e.after)
	for _, c := range e.Changes {
		if c.Old == nil {
			delete(h, c.Name)
		} else {
			h[c.Name] = *c.Old
		}
	}
	return h
}

// values are the fields of an entry in the stream.
func (e Entry) values() ([]string, error) {
	changes, err := json.Marshal(e.Changes)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(e.after)
	if err != nil {
		return nil, err
	}
	return []string{"version", strconv.FormatInt(e.Version, 10), "who", e.Who, "why", e.Why,
		"changes", string(changes), "settings", string(after)}, nil
}

// parseEntry parses what values wrote, and refuses anything else.
func parseEntry(m redis.XMessage) (Entry, error) {
	word := func(name string) string {
		s, _ := m.Values[name].(string) // "" is refused below, where it may not be
		return s
	}
	e := Entry{ID: m.ID, When: timeOf(m.ID), Who: showTo(word("who"), keptWho), Why: showTo(word("why"), keptWhy)}
	var err error
	if e.Version, err = strconv.ParseInt(word("version"), 10, 64); err != nil || e.Version < 1 || e.Version > maxVersion {
		return Entry{}, fmt.Errorf("entry %s: its version is no number from 1 to 2^53", show(m.ID))
	}
	changes, after := word("changes"), word("settings")
	if len(changes) > keptEntry || len(after) > keptEntry {
		return Entry{}, fmt.Errorf("entry %s: longer than %d bytes", show(m.ID), keptEntry)
	}
	if err := json.Unmarshal([]byte(changes), &e.Changes); err != nil {
		return Entry{}, fmt.Errorf("entry %s: changes: %w", show(m.ID), err)
	}
	if err := json.Unmarshal([]byte(after), &e.after); err != nil {
		return Entry{}, fmt.Errorf("entry %s: settings: %w", show(m.ID), err)
	}
	if err := e.check(); err != nil {
		return Entry{}, fmt.Errorf("entry %s: %w", show(m.ID), err)
	}
	return e, nil
}

// check refuses an inconsistent entry.
func (e Entry) check() error {
	if e.Changes == nil {
		return errors.New("there are no changes in it")
	}
	if e.after == nil || len(e.after) > maxFields {
		return errors.New("there are no settings in it, or too many")
	}
	for name, value := range e.after {
		if !keeps(name, value) {
			return errors.New("a setting in it is too long")
		}
	}
	for _, c := range e.Changes {
		is, has := e.after[c.Name]
		if has != (c.New != nil) || has && is != *c.New || c.Old != nil && !keeps(c.Name, *c.Old) {
			return fmt.Errorf("what it says of %s does not fit together", show(c.Name))
		}
	}
	return nil
}
