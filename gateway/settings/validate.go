package settings

import (
	"fmt"
	"strings"
)

// validate checks whether settings may change from now to next, and returns notes about them. The error is a
// *RefusedError. Values that were invalid before do not prevent other changes.
func (s *Store) validate(now, next map[string]string, force bool) (notes []string, err error) {
	routes := s.routesOf(now, next)
	last, _ := FromHash(now, routes, nil)
	then, _ := FromHash(next, routes, last)
	var problems []string
	for _, r := range newlyIn(last.Rejected, then.Rejected) {
		problems = append(problems, problemText(r))
	}
	for _, r := range newlyIn(last.Unknown, then.Unknown) {
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

// problemText describes a refusal for people.
func problemText(r RejectedValue) string {
	if r.Name == Key || strings.HasPrefix(r.Reason, "cannot be removed") {
		return r.Name + ": " + r.Reason
	}
	return fmt.Sprintf("%s: %q is refused: %s", r.Name, r.Value, r.Reason)
}

// notesOf returns what operators should know about settings.
func notesOf(s *Snapshot) []string {
	notes := s.Warnings()
	for _, r := range s.Rejected {
		notes = append(notes, r.Name+" is refused by the replicas as it is: "+r.Reason)
	}
	for _, r := range s.Unknown {
		notes = append(notes, r.Name+" is ignored by the replicas of this version: "+r.Reason)
	}
	return notes
}
