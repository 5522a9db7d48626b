package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validate tells whether settings may become next, given that they are now, and what there
// is to be known of them then. The error is a *RefusedError. What was bad before does not
// keep anybody from changing something else.
func (s *Store) validate(now, next map[string]string, force bool) (notes []string, err error) {
	routes := s.routes
	if routes == nil {
		routes = routesOf(now, next)
	}
	last, _ := FromHash(now, routes, nil)
	then, _ := FromHash(next, routes, last)
	var problems []string
	for _, r := range newlyIn(last.rejected, then.rejected) {
		problems = append(problems, problemText(r))
	}
	for _, r := range newlyIn(last.unknown, then.unknown) {
		if !force {
			problems = append(problems, r.Name+": "+r.Reason)
		}
	}
	for _, c := range changesOf(now, next) {
		if c.New != nil && !keeps(c.Name, *c.New) && *c.New != now[c.Name] {
			problems = append(problems, fmt.Sprintf("%s: want text, the name of at most %d bytes and the value of at most %d", show(c.Name), keptName, keptValue))
		}
	}
	if len(problems) > 0 {
		return nil, &RefusedError{problems}
	}
	return notesOf(then), nil
}

// problemText is what people read of a refusal.
func problemText(r RejectedValue) string {
	if r.Name == Key || strings.HasPrefix(r.Reason, "cannot be removed") {
		return r.Name + ": " + r.Reason
	}
	return fmt.Sprintf("%s: %q is refused: %s", r.Name, r.Value, r.Reason)
}

// notesOf is what somebody should know of settings.
func notesOf(s *Snapshot) []string {
	notes := s.Warnings()
	for _, r := range s.rejected {
		notes = append(notes, r.Name+" is refused by the replicas as it is: "+r.Reason)
	}
	for _, r := range s.unknown {
		notes = append(notes, r.Name+" is ignored by the replicas of this version: "+r.Reason)
	}
	return notes
}

// routesOf are the routes that fields of the hashes name.
func routesOf(hashes ...map[string]string) []string {
	routes := map[string]struct{}{}
	for _, h := range hashes {
		for name := range h {
			if _, route, ok := strings.Cut(name, "@"); ok && route != "" {
				routes[route] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(routes))
}
