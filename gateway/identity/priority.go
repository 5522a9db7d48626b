package identity

import "fmt"

// Priority is a request's class. The zero value is Low, so that a forgotten
// ceiling gives the least.
type Priority int8

// The classes, from the first to be shed to the last.
const (
	Low Priority = iota
	Normal
	High
)

// Priorities lists every class, lowest first.
var priorities = [...]string{Low: "low", Normal: "normal", High: "high"}

// String is the class as headers, labels and the configuration spell it.
func (p Priority) String() string {
	if p < Low || p > High {
		return "unknown"
	}
	return priorities[p]
}

// ParsePriority reads low, normal or high, in exactly this spelling.
func ParsePriority(s string) (Priority, error) {
	for p, name := range priorities {
		if s == name {
			return Priority(p), nil
		}
	}
	return Low, fmt.Errorf("a priority is low, normal or high")
}
