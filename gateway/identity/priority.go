package identity

import "errors"

// Priority is a request's class. The zero value is Low, so that a missing ceiling grants the least.
type Priority int8

// The classes, from the first to be shed to the last.
const (
	Low Priority = iota
	Normal
	High
)

// spelling has the names of the classes in headers, labels and the configuration.
var spelling = [...]string{Low: "low", Normal: "normal", High: "high"}

// String is the name of the class in headers, labels and the configuration.
func (p Priority) String() string {
	if p < Low || p > High {
		return "unknown"
	}
	return spelling[p]
}

// ParsePriority reads low, normal or high, in exactly this spelling.
func ParsePriority(s string) (Priority, error) {
	for p, name := range spelling {
		if s == name {
			return Priority(p), nil
		}
	}
	return Low, errors.New("want low, normal or high")
}

// MarshalText is [Priority.String], for JSON.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePriority], for the configuration.
func (p *Priority) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePriority(string(text))
	return err
}
