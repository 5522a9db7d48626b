package settings

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Line is a setting, or a hash field that is not in force, as commands list it.
type Line struct {
	Name    string     `json:"name"`
	Value   string     `json:"value"` // in force
	Default string     `json:"default"`
	Allowed string     `json:"allowed"`
	Set     bool       `json:"set"`            // by a field of the hash, not the default
	When    *time.Time `json:"when,omitempty"` // of the last change, with Who; nil is unknown
	Who     string     `json:"who,omitempty"`
	Problem string     `json:"problem,omitempty"` // why the field is not in force
}

// List returns all settings in force for a route, with those of its applications; if route is "", the global ones and each route's own.
// Fields that are not in force come last.
func List(s *Snapshot, route string) []Line {
	set := s.Set
	var lines []Line
	for _, spec := range Specs() {
		l := Line{Name: spec.Name, Value: spec.Value(s.Route(route)), Default: spec.DefaultValue(), Allowed: spec.Range}
		_, l.Set = set[spec.Name]
		if _, own := set[spec.Name+"@"+route]; own && route != "" {
			l.Name, l.Set = spec.Name+"@"+route, true
		}
		lines = append(lines, l)
		for _, name := range slices.Sorted(maps.Keys(set)) {
			base, scope, ok := strings.Cut(name, "@")
			of, app := cutScope(scope)
			named := spec.Name == mode && base == applicationName.Name
			if !ok || base != spec.Name && !named || route != "" && (of != route || app == "") {
				continue
			}
			own := Line{Name: name, Value: spec.Value(s.Route(of)), Default: l.Default, Allowed: l.Allowed, Set: true}
			if app != "" {
				own.Value = set[name]
			}
			if named {
				own.Default, own.Allowed = "", applicationName.Range
			}
			lines = append(lines, own)
		}
	}
	for _, r := range s.Rejected {
		lines = append(lines, Line{Name: r.Name, Value: r.Value, Set: true, Problem: "refused: " + r.Reason})
	}
	for _, r := range s.Unknown {
		lines = append(lines, Line{Name: r.Name, Value: r.Value, Set: true, Problem: "ignored: " + r.Reason})
	}
	return lines
}

// AddAuthors adds the author and the time of the last change to lines, as far as the history goes back.
func (s *Store) AddAuthors(ctx context.Context, lines []Line) error {
	open := map[string]*Line{}
	for i := range lines {
		if l := &lines[i]; l.Set {
			open[l.Name] = l
		}
	}
	if len(open) == 0 {
		return nil
	}
	return s.History(ctx, func(entry Entry) bool {
		for _, c := range entry.Changes {
			if l := open[c.Name]; l != nil {
				at := entry.When
				l.When, l.Who = &at, entry.Who
				delete(open, c.Name)
			}
		}
		return len(open) > 0
	})
}
