package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/pressure"
)

// A stored reading is its version, its sequence, and a [told] as JSON, separated by single spaces. The sequence
// is the ms, by Redis' clock, at which it was taken. Every version begins with these two, so that the newest
// wins across versions.
const (
	version  = "3"
	maxValue = 1024    // bytes of a stored reading
	maxSeq   = 1 << 52 // ms; exact in Lua
)

var errNotOurs = errors.New("no reading of version " + version)

// told is a reading and the replica that took it.
type told struct {
	Source  string
	Reading pressure.Reading
}

// stamp is the sequence of a stored reading of any version.
func stamp(value string) (seq int64, ok bool) {
	_, rest, ok := strings.Cut(value, " ")
	word, _, more := strings.Cut(rest, " ")
	if !ok || !more {
		return 0, false
	}
	seq, err := strconv.ParseInt(word, 10, 64)
	return seq, err == nil && seq >= 0 && seq <= maxSeq
}

// encodeReading encodes what follows the version and the sequence, or refuses an invalid reading.
func encodeReading(source string, r pressure.Reading) (string, error) {
	if err := r.Check(); err != nil {
		return "", err
	}
	b, err := json.Marshal(told{source, r})
	return string(b), err
}

// decodeReading parses a stored reading strictly: what encodeReading would not write, such as a number out of
// range, or a missing, extra or repeated field, is an error. Its At is zero.
func decodeReading(value string) (seq int64, source string, r pressure.Reading, err error) {
	seq, ok := stamp(value)
	if !ok || len(value) > maxValue || !strings.HasPrefix(value, version+" ") {
		return seq, "", r, errNotOurs
	}
	tail := strings.SplitN(value, " ", 3)[2]
	var t told
	if err := json.Unmarshal([]byte(tail), &t); err != nil {
		return seq, "", r, err
	}
	if !validReplica(t.Source) {
		return seq, "", r, fmt.Errorf("source: %.40q", t.Source)
	}
	again, err := encodeReading(t.Source, t.Reading)
	if err == nil && again != tail {
		err = errors.New("a reading is written in another way")
	}
	if err != nil {
		return seq, "", r, err
	}
	return seq, t.Source, t.Reading, nil
}
