package evidence

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Map is a calibrated score as JSON; its content is opaque to this package.
type Map = json.RawMessage

// SavedMap is one of a route's calibrated scores.
type SavedMap struct {
	Version int
	Raw     Map
}

// maps holds the calibrated scores of the recently used routes.
type maps struct {
	mu     sync.Mutex
	routes map[string]*scores
}

type scores struct {
	lastUsed time.Time
	list     string // the last read list of versions
	versions map[int]Map
}

// versionsOf is the field with the list of versions of a route's scores.
func versionsOf(route string) string { return route + "/versions" }

func each(list []string, to func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = to(s)
	}
	return out
}

// recentRoutes returns the recently used routes; the others are deleted.
func (m *maps) recentRoutes(now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var routes []string
	for route, s := range m.routes {
		if now.Sub(s.lastUsed) > retention {
			delete(m.routes, route)
		} else {
			routes = append(routes, route)
		}
	}
	return routes
}

// of returns a route's scores. The caller holds mu. Nil if there are too many routes.
func (m *maps) of(route string, now time.Time) *scores {
	s := m.routes[route]
	if s == nil {
		if len(m.routes) >= maxKeys {
			return nil
		}
		if m.routes == nil {
			m.routes = make(map[string]*scores)
		}
		s = &scores{}
		m.routes[route] = s
	}
	s.lastUsed = now
	return s
}

func sorted(found map[int]Map) []SavedMap {
	out := make([]SavedMap, 0, len(found))
	for v, raw := range found {
		out = append(out, SavedMap{v, raw})
	}
	slices.SortFunc(out, func(a, b SavedMap) int { return a.Version - b.Version })
	return out
}

// text returns a value, "" if it is missing or too long.
func text(v any) string {
	s, _ := v.(string)
	if len(s) > maxValue {
		return ""
	}
	return s
}

// versions parses a list of numbers and returns the newest maxMaps of them. Anything else is skipped.
func versions(list string) []int {
	var out []int
	for _, w := range strings.Fields(list) {
		if n, err := strconv.Atoi(w); err == nil && n >= 1 && n <= maxVersion && !slices.Contains(out, n) {
			out = append(out, n)
		}
		if len(out) > maxMaps {
			out = out[1:]
		}
	}
	return out
}
