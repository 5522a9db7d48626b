package evidence

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Audit is one draft that the target will now verify.
type Audit struct {
	risk.Decision
	Ticket   string // its id: 1 … 64 of [A-Za-z0-9-]
	Score    float64
	Features []float64 // of the score, for [Store.Log]; at most 8
	Tokens   int       // of the draft
	Map      int       // version of the fitted score, 0 is none
	Request  string    // id of the draft's request: as a ticket, or "" if unknown
}

// maxFeatures is how many features of an audit are stored.
const maxFeatures = 8

// KeyState is all that is known of a key.
type KeyState struct {
	Key   risk.Key
	State risk.State
	Rule  risk.Rule
	Seen  time.Time // last use, to the minute
}

// LogEntry is one audit with its outcome.
type LogEntry struct {
	When      time.Time // opening time by Redis' clock
	Key       risk.Key
	Ticket    string
	Score     float64
	Floor     float64 // lowest score that was audited
	Threshold float64
	Served    bool // its score was at least the threshold
	Features  []float64
	Tokens    int    // of the draft
	Map       int    // version of the fitted score, 0 is none
	Version   int64  // of the grid
	Alarm     int64  // drift alarms before it; 0 in entries of versions that did not store it
	Label     string // by the label in force: good, bad, or lost: no outcome in the log

	Request string      // id of the draft's request, for its receipt; "": unknown
	Labels  risk.Labels // what every label says; zero while there is no outcome
}

// check returns why an entry is not valid evidence, nil if it is.
func (e *LogEntry) check() error {
	for name, x := range map[string]float64{"score": e.Score, "floor": e.Floor} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("its %s is %s", name, strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	if e.Label != labelGood && e.Label != labelBad && e.Label != labelLost {
		return fmt.Errorf("its label is %.40q, which is none of good, bad, lost", e.Label)
	}
	return nil
}

func labelOf(bad bool) string {
	if bad {
		return labelBad
	}
	return labelGood
}

// joined encodes numbers in one field. Infinite numbers are replaced by the nearest finite ones.
func joined(list []float64) string {
	words := make([]string, len(list))
	for i, x := range list {
		if math.IsNaN(x) {
			x = 0
		}
		words[i] = exact(max(-1e300, min(x, 1e300)))
	}
	return strings.Join(words, " ")
}

// exact is a short text that is parsed to the same number. Not every Lua accepts 1e-05; all accept 1.0e-05.
func exact(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if strings.Contains(s, ".") {
		return s
	}
	return strings.Replace(s, "e", ".0e", 1)
}

// place identifies an entry of the log.
type place struct {
	key    risk.Key
	ticket string
}
