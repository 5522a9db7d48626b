package fleet

import (
	"encoding/json"
	"fmt"
)

const (
	maxWhy   = 256  // bytes of a reason that is stored
	maxDrain = 2048 // bytes of a stored drain: a reason of 256 bytes, escaped
)

// drain is a stored drain.
type drain struct {
	Why   string `json:"why"`
	Until int64  `json:"until"` // ms by Redis' clock; 0: no end

	value  string
	broken bool
}

// expired reports whether a drain has ended.
func (d drain) expired(now int64) bool { return d.Until > 0 && d.Until <= now }

// decodeDrain parses a stored drain. An operator may have typed it: missing parts are empty.
func decodeDrain(value string) (drain, error) {
	var d drain
	if len(value) > maxDrain {
		return d, fmt.Errorf("%d bytes, more than %d", len(value), maxDrain)
	}
	if err := json.Unmarshal([]byte(value), &d); err != nil {
		return drain{}, err
	}
	if d.Until < 0 || d.Until > maxSeq {
		return drain{}, fmt.Errorf("until %d is no time", d.Until)
	}
	return d, nil
}
