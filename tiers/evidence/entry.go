package evidence

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// maxFeatures is how many features of an audit are stored.
const maxFeatures = 8

// KeyState is all that is known of a key.
type KeyState struct {
	Key   risk.Key
	State risk.State
	Rule  risk.Rule
	Seen  time.Time // last use, to the minute
}

// LogEntry is one audit with its outcome. As JSON it is a line of foregate risk export; names and meanings of the fields
// are stable.
type LogEntry struct {
	risk.Key
	When      time.Time `json:"when"`   // opening time by Redis' clock
	Ticket    string    `json:"ticket"` // its id: 1 … 64 of [A-Za-z0-9-]
	Score     float64   `json:"score"`  // of the draft, nats
	Floor     float64   `json:"floor"`  // lowest score that was audited
	Threshold float64   `json:"threshold"`
	Chance    float64   `json:"chance"`   // with which it was drawn before the draft began; 0: not at random, so it only teaches the score
	Served    bool      `json:"served"`   // the score was at least the threshold
	Features  []float64 `json:"features"` // in the order of accept.FeatureNames, at most 8
	Tokens    int       `json:"tokens"`   // of the draft
	Version   int64     `json:"grid"`     // of the grid
	Alarm     int64     `json:"alarm"`    // drift alarms before it
	Label     string    `json:"label"`    // Good, Bad or Lost
	Request   string    `json:"request"`  // id of the draft's request, for its receipt; "": unknown
}

// Labels of audits.
const (
	Good = "good" // the target stands by the draft
	Bad  = "bad"
	Lost = "lost" // its outcome is unknown, or it is in progress
)

// maxScore stands for a threshold that no score reaches. No score or feature exceeds it.
const maxScore = risk.Unreachable

// Check returns the field that no audit has in this way, and what it should be; nil if there is none.
func (e *LogEntry) Check() error {
	_, err := nameOf(e.Key)
	fine := isScore(e.Score) && isScore(e.Floor) && isScore(e.Threshold)
	for _, x := range e.Features {
		fine = fine && isScore(x)
	}
	switch {
	case err != nil:
		return err
	case !fine:
		return errors.New("score, floor, threshold, features: want numbers from -1e9 to 1e9")
	case len(e.Features) > maxFeatures:
		return fmt.Errorf("features: want at most %d", maxFeatures)
	case !ticketShape.MatchString(e.Ticket), !isRequest(e.Request):
		return errors.New("ticket, request: want 1 to 64 letters, digits and hyphens")
	case e.Tokens < 0 || e.Version < 0 || e.Alarm < 0 || max(int64(e.Tokens), e.Version, e.Alarm) > maxCount:
		return errors.New("tokens, grid, alarm: want counts")
	case !(e.Chance >= 0 && e.Chance <= 1):
		return errors.New("chance: want a probability")
	case e.Label != Good && e.Label != Bad && e.Label != Lost:
		return errors.New("label: want good, bad or lost")
	case e.When.UnixMicro() <= 0 || e.When.UnixMicro() > maxCount:
		return errors.New("when: want a time such as 2006-01-02T15:04:05Z")
	}
	return nil
}

// isScore reports whether a number can be a score or a threshold. NaN cannot.
func isScore(x float64) bool { return math.Abs(x) <= maxScore }

func labelOf(bad bool) string {
	if bad {
		return Bad
	}
	return Good
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
